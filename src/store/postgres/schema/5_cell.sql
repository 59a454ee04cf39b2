-- Cells of a held session. Each write first locks the session's row. Its verdict is done, stale (the fence is lost),
-- used, missing or ended; `known` is the digest or the end of the existing cell. A cell can change until it ends, and
-- ends once. `_again`: an earlier attempt got no answer and may have succeeded.

create function belay.admit_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _again boolean, _id text,
    _created timestamptz, _deadline_ms bigint, _pid bigint, _pid_started bigint, _digest bytea,
    out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _mine boolean;
begin
    perform durable(_durable);
    verdict := 'stale';
    if not fenced(_me, _key, _epoch) then
        return;
    end if;
    verdict := 'used';
    select digest into known from cell_tombstone where session = _key and id = _id;
    if found then
        return;
    end if;
    insert into cell (session, id, created, deadline_ms, pid, pid_started, digest)
        values (_key, _id, _created, _deadline_ms, _pid, _pid_started, _digest)
        on conflict (session, id) do nothing;
    if found then
        verdict := 'done';
        return;
    end if;
    select digest, digest = _digest and created = _created and generation = 0 and terminal is null
        into known, _mine from cell where session = _key and id = _id;
    if _again and _mine then
        verdict := 'done';
    end if;
end $$;

-- Removes a cell that no caller knows about and that has no outcome.
create function belay.withdraw_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _id text,
    out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    verdict := 'stale';
    if fenced(_me, _key, _epoch) then
        delete from cell where session = _key and id = _id and generation = 0 and terminal is null;
        verdict := 'done';
    end if;
end $$;

create function belay.start_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _id text, _pid bigint,
    _pid_started bigint, out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    verdict := 'stale';
    if fenced(_me, _key, _epoch) then
        update cell set pid = _pid, pid_started = _pid_started where session = _key and id = _id;
        verdict := case when found then 'done' else 'missing' end;
    end if;
end $$;

-- Explains why a cell was not changed.
create function belay.refuse_cell(_key bigint, _id text, out verdict text, out known bytea)
language plpgsql set search_path = belay, pg_temp as $$
begin
    select terminal into known from cell where session = _key and id = _id;
    verdict := case when found then 'ended' else 'missing' end;
end $$;

create function belay.yield_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _id text,
    _generation bigint, _yielded bytea, out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    verdict := 'stale';
    if not fenced(_me, _key, _epoch) then
        return;
    end if;
    update cell set yielded_generation = _generation, generation = _generation, yielded = _yielded
        where session = _key and id = _id and terminal is null;
    verdict := 'done';
    if not found then
        select r.verdict, r.known into verdict, known from refuse_cell(_key, _id) r;
    end if;
end $$;

-- Sets values in the given order. A value without a body is deleted.
create function belay.put_values(_key bigint, _names bytea[], _bodies bytea[]) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    for i in 1 .. cardinality(_names) loop
        if _bodies[i] is null then
            delete from cell_value where session = _key and sha256(name) = sha256(_names[i]);
        else
            insert into cell_value (session, name, body) values (_key, _names[i], _bodies[i])
                on conflict (session, sha256(name)) do update set body = excluded.body;
        end if;
    end loop;
end $$;

-- `_stopped`: id of the receipt that the end names. `_receipt` may be null.
create function belay.end_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _id text,
    _yielded_generation bigint, _generation bigint, _completed boolean, _ended timestamptz, _yielded bytea,
    _terminal bytea, _stopped text, _names bytea[], _bodies bytea[], _receipt_id text, _scope text, _receipt bytea,
    out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    verdict := 'stale';
    if not fenced(_me, _key, _epoch) then
        return;
    end if;
    update cell
        set yielded_generation = _yielded_generation, generation = _generation, completed = _completed,
            ended = _ended, yielded = _yielded, terminal = _terminal, receipt = _stopped
        where session = _key and id = _id and terminal is null;
    if not found then
        select r.verdict, r.known into verdict, known from refuse_cell(_key, _id) r;
        return;
    end if;
    perform put_values(_key, _names, _bodies);
    perform add_beside(_key, null, null, null, _receipt_id, _scope, _receipt);
    verdict := 'done';
end $$;

-- Replaces an ended cell with its tombstone. Then deletes old tombstones, lowest key first: those above the limit
-- `_most`, and those buried before `_before`, at most 1,024 in one call. Tombstones that another transaction is
-- deleting are skipped. The row with their number is locked last, so that the transaction that has it waits for no
-- other lock.
create function belay.bury_cell(_me text, _key bigint, _epoch bigint, _durable boolean, _again boolean, _id text,
    _now timestamptz, _most bigint, _before timestamptz, out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _surplus bigint;
    _old record;
    _keys bigint[] := '{}';
    _gone bigint;
begin
    perform durable(_durable);
    verdict := 'stale';
    if not fenced(_me, _key, _epoch) then
        return;
    end if;
    insert into cell_tombstone (session, id, buried, digest)
        select session, id, _now, digest from cell where session = _key and id = _id and terminal is not null;
    if not found then
        select r.verdict, r.known into verdict, known from refuse_cell(_key, _id) r;
        if _again and exists (select 1 from cell_tombstone where session = _key and id = _id) then
            verdict := 'done';
        end if;
        return;
    end if;
    delete from cell where session = _key and id = _id;
    verdict := 'done';
    select count + 1 - _most into _surplus from tombstones;
    for _old in select key, buried from cell_tombstone order by key limit 1024 loop
        exit when cardinality(_keys) >= _surplus and _old.buried >= _before;
        _keys := _keys || _old.key;
    end loop;
    delete from cell_tombstone where key = any (array(
        select key from cell_tombstone where key = any (_keys) for update skip locked));
    get diagnostics _gone = row_count;
    if _gone <> 1 then
        update tombstones set count = count + 1 - _gone;
    end if;
end $$;

-- Removes all cells, values and tombstones of these sessions.
create function belay.remove_cells(_keys bigint[]) returns void
language plpgsql set search_path = belay, pg_temp as $$
declare
    _gone bigint;
begin
    delete from cell where session = any (_keys);
    delete from cell_value where session = any (_keys);
    delete from cell_tombstone where session = any (_keys);
    get diagnostics _gone = row_count;
    if _gone > 0 then
        update tombstones set count = count - _gone;
    end if;
end $$;

create function belay.forget_cells(_me text, _key bigint, _epoch bigint, _durable boolean,
    out verdict text, out known bytea)
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    verdict := 'stale';
    if fenced(_me, _key, _epoch) then
        perform remove_cells(array[_key]);
        verdict := 'done';
    end if;
end $$;
