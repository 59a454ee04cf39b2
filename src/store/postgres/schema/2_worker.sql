-- Workers: every process that holds something.

-- Commits are never less durable than `on`, whatever the database's setting; the rest need not wait.
create function belay.durable(_durable boolean) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    if not _durable then
        perform set_config('synchronous_commit', 'off', true);
    elsif current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;

-- Registers a worker, or changes its place. False: another worker has taken over from this one, which needs a new
-- id.
create function belay.register(_id text, _host text, _boot text, _pid_space text, _pid bigint, _started bigint,
    _version int, _pool text default null, _labels text[] default '{}', _slots bigint default 0) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _state text;
begin
    insert into worker (id, host, boot, pid_space, pid, started, version, pool, labels, slots)
        values (_id, _host, _boot, _pid_space, _pid, _started, _version, _pool, _labels, _slots)
        on conflict (id) do nothing;
    if not found then
        update worker set pool = _pool, labels = _labels, slots = _slots
            where id = _id and (pool, labels, slots) is distinct from (_pool, _labels, _slots);
    end if;
    select state into _state from worker where id = _id;
    return _state in ('live', 'draining');
end $$;

-- Renews the worker's lease. False: it has been taken over.
create function belay.beat(_me text) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    update worker set beat = beat + 1, beat_at = clock_timestamp() where id = _me and state in ('live', 'draining');
    return found;
end $$;

-- Goodbye of a worker that holds nothing: what it was asked to stop has ended.
-- Ends a worker that holds nothing. What a late claim has given it goes back to the queue: it never ran.
create function belay.leave(_me text) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform 1 from worker where id = _me for no key update;
    perform give_back(_me);
    update worker set state = 'gone', beat = beat + 1, beat_at = clock_timestamp()
        where id = _me and state in ('live', 'draining')
        and not exists (select 1 from session where owner = _me)
        and not exists (select 1 from feature where owner = _me)
        and not exists (select 1 from item where owner = _me);
    if found then
        update stop_unit set fate = 'finished', answered_at = clock_timestamp() where owner = _me and fate is null;
    end if;
end $$;

-- No more claims; the worker learns it from its next heartbeat, or at once.
create function belay.drain(_worker text) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    update worker set state = 'draining' where id = _worker and state in ('live', 'draining');
    if found then
        perform pg_notify(worker_channel(_worker), 'drain');
        return true;
    end if;
    return false;
end $$;

-- Workers that their host has seen dead. The next heartbeat of any worker requeues their items: here, locks would
-- be taken in another order.
create function belay.lose(_dead text[]) returns void
language sql security definer set search_path = belay, pg_temp as $$
    update worker set state = 'lost', owes = true where id = any (_dead) and state in ('live', 'draining');
$$;

-- Takes over from a worker that has sent no other heartbeat than the observed one: its late writes are refused
-- from here on.
create function belay.take_over(_me text, _worker text, _beat bigint) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    if not exists (select 1 from worker where id = _me and state in ('live', 'draining')) then
        return false;
    end if;
    update worker set state = 'lost' where id = _worker and beat = _beat and state in ('live', 'draining');
    if not found then
        return false;
    end if;
    update feature set epoch = epoch + 1 where owner = _worker;
    perform 1 from item where owner = _worker order by id for update;
    perform 1 from session where owner = _worker order by key for no key update;
    update session set epoch = epoch + 1 where owner = _worker;
    perform requeue(_worker);
    return true;
end $$;
