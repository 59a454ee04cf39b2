-- The queue: items are claimed by workers, looked at, and ended.

-- ---- Ends --------------------------------------------------------------------------------------------------------

-- What `belay run` prints if it cannot begin.
create function belay.failure_envelope(_code text, _target text, _message text, _hint text) returns bytea
language sql volatile set search_path = belay, pg_temp as $$
    select convert_to(json_build_object(
        'timestamp', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'command', 'run', 'exit_code', 1, 'output_format', 'json', 'schema_version', 1,
        'error', json_build_object('kind', 'runtime', 'operation', 'run the item', 'target', _target,
            'retryable', false, 'message', _message, 'hint', _hint, 'code', _code))::text, 'UTF8');
$$;

-- Ends an item whose row is locked, and answers the stops of it that are open. `_fate` null: they stay open.
create function belay.end_item(_id text, _state text, _exit_code bigint, _session text, _fate text, _envelope bytea,
    _receipt bytea) returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _item item;
begin
    delete from item where id = _id returning * into _item;
    insert into ended (id, kind, state, pool, fair_key, exit_code, session, worker, host, epoch, stop, tries, deaths,
            submitter, offered_at, spec, envelope, receipt)
        select _id, _item.kind, _state, _item.pool, _item.fair_key, _exit_code, coalesce(_session, _item.session),
            _item.owner, (select host from worker where id = _item.owner), _item.epoch, _item.stop, _item.tries,
            _item.deaths, _item.submitter, _item.offered_at, _item.spec, _envelope, _receipt;
    update stop_unit set fate = _fate, receipt = case when stop = _item.stop then _receipt end,
            answered_at = clock_timestamp()
        where item = _id and fate is null and _fate is not null;
    if _item.permit then
        perform give_permit(_item.limit_key);
    end if;
end $$;

-- Queues an item again that was running, with its rank and its permit.
create function belay.queue_again(_item belay.item) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    update item set state = 'queued', owner = null where id = _item.id;
    perform pg_notify(pool_channel(_item.pool), _item.rank::text);
end $$;

-- Gives back the items that a claim brought to a worker too late, after its last heartbeat: they never ran.
create function belay.give_back(_worker text) returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _item item;
begin
    for _item in select * from item where owner = _worker and not attached order by id for update loop
        if exists (select 1 from session where item = _item.id and owner = _worker) then
            continue;
        end if;
        update item set epoch = epoch + 1 where id = _item.id;
        if _item.state = 'stopping' then
            perform end_item(_item.id, 'cancelled', 130, null, 'never_started', null, null);
        else
            perform queue_again(_item);
        end if;
    end loop;
end $$;

-- Takes the items of a lost worker: they are queued again, except those that were stopped, those that only that worker
-- may run, and those under which three workers have died.
create function belay.requeue(_worker text) returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _item item;
begin
    for _item in select * from item where owner = _worker order by id for update loop
        update item set epoch = epoch + 1, deaths = deaths + 1 where id = _item.id; -- it can finish nothing any more
        if _item.attached then
            perform end_item(_item.id, 'interrupted', 1, null, null, null, null);
        elsif _item.state = 'stopping' then
            perform end_item(_item.id, 'cancelled', 130, null, null, null, null);
        elsif _item.deaths >= 2 then
            perform end_item(_item.id, 'failed', 1, null, null,
                failure_envelope('workers_died', _item.id, format('%s workers died while they ran it',
                    _item.deaths + 1), 'find out why before it is run again'), null);
        else
            perform queue_again(_item);
        end if;
    end loop;
    update stop_unit set fenced = true where owner = _worker and fate is null;
end $$;

-- True if a turn of the item was refused because of its stop.
create function belay.was_refused(_session text, _stop text) returns boolean
language sql volatile set search_path = belay, pg_temp as $$
    select exists (select 1 from session s where s.id = _session and (s.stop = _stop and s.attempt is not null
        or exists (select 1 from attempt a where a.session = s.key and a.stop = _stop)));
$$;

-- Records the end of a try: an end, or `delayed` (a retry) or `queued` (given back). False: the worker does not own
-- the item under that epoch, and nothing was changed. Asked for again, it answers the same.
create function belay.finish(_me text, _id text, _epoch bigint, _state text, _retry_ms bigint, _exit_code bigint,
    _session text, _fate text, _envelope bytea, _receipt bytea) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _item item;
    _refused boolean := false;
begin
    perform durable(true);
    select * into _item from item where id = _id for update;
    if not found then
        return exists (select 1 from ended where id = _id and worker = _me and epoch = _epoch);
    end if;
    if _item.owner is distinct from _me or _item.epoch <> _epoch then
        return _item.owner is null and _item.epoch = _epoch;
    end if;
    if _state in ('delayed', 'queued') and _item.state = 'running' then
        update item set state = _state, owner = null, session = coalesce(_session, session),
                run_at = clock_timestamp() + _retry_ms * interval '1 ms'
            where id = _id;
        if _state = 'queued' then
            perform pg_notify(pool_channel(_item.pool), _item.rank::text);
        else
            update item set tries = tries + 1, deadline_at = null, permit = false where id = _id;
        end if;
        update stop_unit set fate = 'finished', answered_at = clock_timestamp() where item = _id and fate is null;
        if _state = 'delayed' and _item.permit then
            perform give_permit(_item.limit_key);
        end if;
        return true;
    end if;
    if _item.state = 'stopping' and _state in ('delayed', 'queued', 'completed') then
        _refused := _state <> 'completed' or was_refused(coalesce(_session, _item.session), _item.stop);
    end if;
    perform end_item(_id, case when _refused then 'cancelled' else _state end,
        case when _refused then 130 else _exit_code end, _session,
        case when _refused and coalesce(_fate, 'finished') = 'finished' then 'aborted'
            else coalesce(_fate, case when _state in ('cancelled', 'interrupted') then 'aborted' else 'finished' end) end,
        case when not (_refused and _state = 'completed') then _envelope end, _receipt);
    return true;
end $$;

-- ---- Claims ------------------------------------------------------------------------------------------------------

create function belay.fits(_item belay.item, _worker belay.worker) returns boolean
language sql volatile as $$
    select _item.needs <= _worker.version and _item.labels <@ _worker.labels
        and (_item.host is null or _item.host = _worker.host or _item.host_until < clock_timestamp());
$$;

create type belay.claimed as (id text, spec bytea, session text, epoch bigint, tries bigint, deaths bigint,
    left_ms bigint, rank float8);

create function belay.claim_of(_item belay.item) returns belay.claimed
language sql volatile set search_path = belay, pg_temp as $$
    select _item.id, _item.spec, _item.session, _item.epoch, _item.tries, _item.deaths,
        case when _item.deadline_at is not null then
            greatest(ceil(extract(epoch from _item.deadline_at - clock_timestamp()) * 1000), 0)::bigint end, _item.rank;
$$;

-- Claims items for a worker, if that is live, from the rank `_mark` on: the dead rows before it cost nothing. The
-- worker's row is locked, so that no takeover passes over what is claimed here. What the settings forbid counts as
-- expensive, and compiling such a plan would take a hundred times as long as running it.
create function belay.claim(_me text, _most bigint, _mark float8) returns setof belay.claimed
language plpgsql security definer set search_path = belay, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
    _worker worker;
begin
    perform durable(true);
    select * into _worker from worker where id = _me and state = 'live' and pool is not null for share;
    if not found or exists (select 1 from pool where name = _worker.pool and paused) then
        return;
    end if;
    return query
        with c as (
            select i.id from item i where i.pool = _worker.pool and i.state = 'queued' and i.rank >= _mark
                and fits(i, _worker) order by i.rank, i.id limit least(_most, 8) for update skip locked),
        u as (
            update item i set state = 'running', owner = _me, epoch = i.epoch + 1, claimed_at = clock_timestamp(),
                    deadline_at = coalesce(i.deadline_at, clock_timestamp() + i.timeout_ms * interval '1 ms')
                from c where i.id = c.id returning i as item)
        select c.* from u cross join lateral claim_of(u.item) c order by c.rank, c.id;
end $$;

-- Takes up an item that the worker owns, under a new epoch. No row: it does not own it any more.
create function belay.resume(_me text, _id text, _epoch bigint) returns setof belay.claimed
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _item item;
begin
    perform durable(true);
    update item set epoch = epoch + 1 where id = _id and owner = _me and epoch = _epoch returning * into _item;
    if found then
        return next claim_of(_item);
    end if;
end $$;

-- ---- Heartbeats --------------------------------------------------------------------------------------------------

-- Requeues what lost workers have left.
create function belay.settle_debts() returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _worker text;
begin
    for _worker in select id from worker where owes order by id limit 10 for update skip locked loop
        perform 1 from item where owner = _worker order by id for update;
        perform requeue(_worker);
        update worker set owes = false where id = _worker;
    end loop;
end $$;

-- Queues or parks delayed items that are due, and gives permits that were missed.
create function belay.release_due() returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _each record;
    _left bigint := 100;
begin
    for _each in select id, pool, rank, limit_key from item where state = 'delayed' and run_at <= clock_timestamp()
            order by run_at limit 100 for update skip locked loop
        update item set state = case when limit_key is null then 'queued' else 'parked' end where id = _each.id;
        perform pg_notify(pool_channel(_each.pool), _each.rank::text) where _each.limit_key is null;
    end loop;
    for _each in select key from permit p where (most is null or in_use < most)
            and exists (select 1 from item where limit_key = p.key and state = 'parked')
            order by key limit 100 for update skip locked loop
        _left := _left - unpark(_each.key, _left);
        exit when _left <= 0;
    end loop;
end $$;

-- What a heartbeat tells a worker, beside its lease. One row of kind `self` (`flag`: it is to drain; `other`: items
-- wait that it may claim), one of kind `owned` for each of its items, and one of kind `order` for each stop that it
-- has to answer (`flag`: now).
create function belay.tend(_me text)
returns table (kind text, id text, epoch bigint, flag boolean, other boolean, stop text, part text, origin text)
language plpgsql security definer set search_path = belay, pg_temp
set enable_seqscan = off set jit = off set lock_timeout = '200ms' as $$
declare
    _worker worker;
begin
    perform durable(false);
    perform release_due();
    begin -- may wait for locks; the next heartbeat tries again
        perform settle_debts();
    exception when lock_not_available or deadlock_detected then
        null;
    end;
    select * into _worker from worker w where w.id = _me;
    return query
        select 'self', _me, 0::bigint, _worker.state = 'draining', _worker.state = 'live' and exists (
                select 1 from item i where i.pool = _worker.pool and i.state = 'queued' and fits(i, _worker))
            and not exists (select 1 from pool p where p.name = _worker.pool and p.paused), null, null, null
        union all
        select 'owned', i.id, i.epoch, false, false, null, null, null from item i where i.owner = _me
        union all
        select 'order', u.item, u.epoch, s.now, false, s.id, s.part, s.origin
            from stop_unit u join stop s on s.id = u.stop where u.owner = _me and u.fate is null;
end $$;

-- ---- Pools -------------------------------------------------------------------------------------------------------

create function belay.pause_pool(_pool text, _paused boolean) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    insert into pool (name, paused) values (_pool, _paused) on conflict (name) do update set paused = excluded.paused;
    perform pg_notify(pool_channel(_pool), '-infinity') where not _paused;
end $$;

-- ---- Looking -----------------------------------------------------------------------------------------------------

-- All that waits, runs and has ended, for those who may see it.
create view belay.all_items as
    select i.id, i.kind, i.state, i.pool, i.session, i.owner as worker, w.host, i.submitter, i.tries, i.deaths,
            i.offered_at, 0::bigint as exit_code, null::bytea as envelope, null::bytea as receipt, i.spec, i.fair_key,
            false as is_over
        from belay.item i left join belay.worker w on w.id = i.owner
    union all
    select id, kind, state, pool, session, worker, host, submitter, tries, deaths, offered_at, exit_code, envelope,
            receipt, spec, fair_key, true
        from belay.ended;

create type belay.item_view as (id text, kind text, state text, pool text, session text, worker text, host text,
    submitter text, tries bigint, deaths bigint, age_ms bigint, exit_code bigint, envelope bytea, receipt bytea,
    spec bytea);

create function belay.look(_id text) returns setof belay.item_view
language sql volatile security definer set search_path = belay, pg_temp as $$
    select id, kind, state, pool, session, worker, host, submitter, tries, deaths,
            greatest(extract(epoch from clock_timestamp() - offered_at) * 1000, 0)::bigint, exit_code, envelope,
            receipt, spec
        from all_items where id = _id and may_see(submitter);
$$;

-- The oldest first. `_state` null: all that wait or run, and with `_ended` all others; `_after`: the last item of the
-- page before, null: the first page.
create function belay.list(_pool text, _key text, _state text, _ended boolean, _after text, _most bigint)
returns setof belay.item_view
language plpgsql volatile security definer set search_path = belay, pg_temp as $$
declare
    _from timestamptz;
    _all boolean := may_see('belay_worker');
    _over boolean := _ended or coalesce(_state in ('completed', 'failed', 'cancelled', 'interrupted'), false);
begin
    select offered_at into _from from all_items a where a.id = _after;
    return query
        select a.id, a.kind, a.state, a.pool, a.session, a.worker, a.host, a.submitter, a.tries, a.deaths,
                greatest(extract(epoch from clock_timestamp() - a.offered_at) * 1000, 0)::bigint, a.exit_code,
                null::bytea, null::bytea, null::bytea
            from all_items a
            where (_pool is null or a.pool = _pool) and (_key is null or a.fair_key = _key)
                and (_state is null or a.state = _state) and (_over or not a.is_over)
                and (_from is null or (a.offered_at, a.id) > (_from, _after)) and (_all or may_see(a.submitter))
            order by a.offered_at, a.id limit _most;
end $$;

-- ---- Months ------------------------------------------------------------------------------------------------------

-- Creates the partitions of a year; those that are there stay.
create function belay.make_months(_year int) returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _month timestamptz;
begin
    for _month in select make_timestamptz(_year, m, 1, 0, 0, 0, 'UTC') from generate_series(1, 12) m loop
        execute format('create table if not exists %I partition of ended for values from (%L) to (%L)',
            'ended_' || to_char(_month at time zone 'UTC', 'YYYY_MM'), _month,
            (_month at time zone 'UTC' + interval '1 month') at time zone 'UTC');
    end loop;
end $$;

select belay.make_months(extract(year from now() at time zone 'UTC')::int + y) from generate_series(0, 1) y;
