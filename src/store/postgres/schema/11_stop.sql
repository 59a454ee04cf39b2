-- Stops. The transaction that records one decides history: nothing of the stopped work enters the store after it,
-- whether its worker can be reached or not.

-- Records a stop and its only unit, and tells the worker.
create function belay.ask_stop(_target text, _part text, _origin text, _now boolean, _owner text, _epoch bigint,
    _fate text) returns text
language plpgsql set search_path = belay, pg_temp as $$
declare
    _stop text := make_id('stop_');
begin
    insert into stop (id, target, part, origin, now) values (_stop, _target, _part, _origin, _now);
    insert into stop_unit (stop, item, owner, epoch, fate, fenced, answered_at)
        values (_stop, _target, _owner, _epoch, _fate, _part is null,
            case when _fate is not null then clock_timestamp() end);
    if _owner is not null then
        perform pg_notify(worker_channel(_owner), _stop);
    end if;
    return _stop;
end $$;

-- An earlier stop of the same: `_open`, one that is not answered. It is asked for again without grace periods if
-- `_now` says so.
create function belay.earlier_stop(_target text, _part text, _now boolean, _open boolean) returns text
language plpgsql set search_path = belay, pg_temp as $$
declare
    _stop text;
    _owner text;
begin
    select s.id, u.owner into _stop, _owner from stop s join stop_unit u on u.stop = s.id and u.item = _target
        where s.target = _target and s.part is not distinct from _part and (not _open or u.fate is null)
        order by s.asked_at desc limit 1;
    update stop s set now = true where s.id = _stop and _now and not s.now
        and exists (select 1 from stop_unit u where u.stop = _stop and u.fate is null);
    if found and _owner is not null then
        perform pg_notify(worker_channel(_owner), _stop);
    end if;
    return _stop;
end $$;

-- Stops an item whose row is locked.
create function belay.stop_item(_item belay.item, _part text, _origin text, _now boolean) returns text
language plpgsql set search_path = belay, pg_temp as $$
declare
    _stop text := earlier_stop(_item.id, _part, _now, true);
begin
    if _stop is not null or _part is not null and _item.owner is null then
        return _stop;
    end if;
    _stop := ask_stop(_item.id, _part, _origin, _now, _item.owner, _item.epoch,
        case when _item.owner is null then 'never_started' end);
    if _part is not null then
        return _stop;
    end if;
    update item set stop = _stop, state = case when owner is null then state else 'stopping' end where id = _item.id;
    if _item.owner is null then
        perform end_item(_item.id, 'cancelled', 130, null, null, null, null);
    else
        perform 1 from session where item = _item.id and owner = _item.owner order by key for no key update;
        update session set stop = _stop where item = _item.id and owner = _item.owner;
    end if;
    return _stop;
end $$;

-- Stops what a worker does in a session that it holds, and in those of its agents. Null: no worker at work holds it.
create function belay.stop_session(_id text, _part text, _origin text, _now boolean) returns text
language plpgsql set search_path = belay, pg_temp as $$
declare
    _session session;
    _stop text;
begin
    select * into _session from session where id = _id for no key update;
    if not exists (select 1 from worker where id = _session.owner and state in ('live', 'draining')) then
        return null;
    end if;
    _stop := earlier_stop(_id, _part, _now, true);
    if _stop is not null then
        return _stop;
    end if;
    _stop := ask_stop(_id, _part, _origin, _now, _session.owner, _session.epoch, null);
    if _part is null then
        with recursive tree (key, id) as (
            select key, id from session where key = _session.key
            union select s.key, s.id from tree t join session s on s.agent_of = t.id and s.owner = _session.owner)
            update session s set stop = _stop from tree t where s.key = t.key and s.owner = _session.owner;
    end if;
    return _stop;
end $$;

-- Stops what has the id `_target`: an item, or what holds a session; a part of it is told to its worker, and nothing
-- is refused. Returns the id of the stop, or of an earlier one of the same; null: nothing with that id runs or waits.
create function belay.stop(_target text, _part text, _origin text, _now boolean) returns text
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _item item;
    _session text;
    _stop text;
begin
    perform durable(true);
    select * into _item from item
        where id = _target or session = _target and state in ('running', 'stopping') order by id = _target desc limit 1
        for update;
    if found then
        return case when may_see(_item.submitter) then stop_item(_item, _part, _origin, _now) end;
    end if;
    if exists (select 1 from ended where id = _target and not may_see(submitter)) then
        return null;
    end if;
    -- Sessions without an item are those of workers' users.
    if may_see('belay_worker') then
        select coalesce((select s.id from session s where s.id = _target),
            (select s.id from run r join session s on s.key = r.session where r.id = _target and r.key =
                (select max(key) from run where session = r.session))) into _session;
        _stop := stop_session(_session, _part, _origin, _now);
    end if;
    return coalesce(_stop, earlier_stop(_target, _part, _now, false),
        earlier_stop(_session, _part, _now, false));
end $$;

-- The same for SQL.
create function belay.cancel(_target text) returns text
language sql security definer set search_path = belay, pg_temp as $$
    select stop(_target, null, session_user::text, false);
$$;

-- Answers an order, once. What is done in a session, without an item, may continue with the next turn.
create function belay.answer(_me text, _stop text, _item text, _fate text, _receipt bytea) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    perform 1 from session where stop = _stop and owner = _me and item is null order by key for no key update;
    update stop_unit set fate = _fate, receipt = _receipt, answered_at = clock_timestamp()
        where stop = _stop and item = _item and fate is null;
    update session set stop = null where stop = _stop and owner = _me and item is null;
end $$;

create function belay.stopped(_stop text)
returns table (item text, worker text, host text, silent_ms bigint, fate text, fenced boolean, receipt bytea)
language sql volatile security definer set search_path = belay, pg_temp as $$
    select u.item, u.owner, w.host,
            case when w.id is not null then
                greatest(extract(epoch from clock_timestamp() - w.beat_at) * 1000, 0)::bigint end,
            u.fate, u.fenced, u.receipt
        from stop_unit u left join worker w on w.id = u.owner left join all_items a on a.id = u.item
        where u.stop = _stop and may_see(coalesce(a.submitter, 'belay_worker')) order by u.item;
$$;
