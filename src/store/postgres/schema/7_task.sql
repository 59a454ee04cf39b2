-- Tasks of other protocols. Only a working task can be ended, so it ends once. An ended task never changes, and is
-- deleted when it has expired. `_again`: an earlier attempt got no answer and may have succeeded.

-- Deletes the task if it has expired, and at most 256 other expired tasks: results may be large, and a caller is
-- waiting. Tasks that another transaction is deleting are skipped.
create function belay.expire_tasks(_id text, _now timestamptz) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    delete from task where id = _id and expires <= _now;
    delete from task where key = any (array(
        select key from task where expires <= _now order by expires limit 256 for update skip locked));
end $$;

-- Verdict: done, used, or lost (the caller is not a live worker).
create function belay.begin_task(_me text, _durable boolean, _again boolean, _now timestamptz, _id text, _kind text,
    _session text, _created timestamptz) returns text
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    if not exists (select 1 from worker where id = _me and state in ('live', 'draining')) then
        return 'lost';
    end if;
    perform expire_tasks(_id, _now);
    insert into task (id, kind, session, created, status, owner, pid, started, host, boot, pid_space)
        select _id, _kind, _session, _created, 'working', id, pid, started, host, boot, pid_space
            from worker where id = _me
        on conflict (id) do nothing;
    if found or _again and exists (select 1 from task where id = _id and owner = _me and created = _created
            and status = 'working') then
        return 'done';
    end if;
    return 'used';
end $$;

-- Verdict: done, ended or missing.
create function belay.end_task(_durable boolean, _again boolean, _id text, _status text, _ended timestamptz,
    _expires timestamptz, _receipt bytea, _result bytea) returns text
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _same boolean;
begin
    perform durable(_durable);
    update task set status = _status, ended = _ended, expires = _expires, receipt = _receipt, result = _result
        where id = _id and status = 'working';
    if found then
        return 'done';
    end if;
    select (status, ended, expires) = (_status, _ended, _expires) and receipt is not distinct from _receipt
            and result is not distinct from _result
        into _same from task where id = _id;
    return case when not found then 'missing' when _again and _same then 'done' else 'ended' end;
end $$;

-- Ends a task whose owner is lost, unless it has ended since.
create function belay.fail_task(_durable boolean, _key bigint, _now timestamptz, _expires timestamptz) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    update task set status = 'failed', ended = _now, expires = _expires where key = _key and status = 'working';
end $$;
