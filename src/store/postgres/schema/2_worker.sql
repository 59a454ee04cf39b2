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

-- False: another worker has taken over from this one, which needs a new id.
create function belay.register(_id text, _host text, _boot text, _pid_space text, _pid bigint, _started bigint, _version int)
returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    insert into worker (id, host, boot, pid_space, pid, started, version)
        values (_id, _host, _boot, _pid_space, _pid, _started, _version) on conflict (id) do nothing;
    return (select state in ('live', 'draining') from worker where id = _id);
end $$;

-- Renews the worker's lease. False: it has been taken over.
create function belay.beat(_me text) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    update worker set beat = beat + 1, beat_at = clock_timestamp() where id = _me and state in ('live', 'draining');
    return found;
end $$;

create function belay.leave(_me text) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    update worker set state = 'gone', beat = beat + 1, beat_at = clock_timestamp()
        where id = _me and state in ('live', 'draining')
        and not exists (select 1 from session where owner = _me) and not exists (select 1 from feature where owner = _me);
end $$;

-- Workers that their host has seen dead.
create function belay.lose(_dead text[]) returns void
language sql security definer set search_path = belay, pg_temp as $$
    update worker set state = 'lost' where id = any (_dead) and state in ('live', 'draining');
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
    update session set epoch = epoch + 1 where owner = _worker;
    return true;
end $$;
