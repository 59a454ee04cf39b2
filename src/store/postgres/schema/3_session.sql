-- Holding a session.

-- True if the claimant may take what `_owner` holds: nobody holds it, its worker has ended or is lost, or the claimant
-- holds it itself, through a handle that is no longer open or the one that asks.
create function belay.may_take(_owner text, _its_handle bigint, _me text, _handle bigint, _handles bigint[])
returns boolean
language sql stable set search_path = belay, pg_temp as $$
    select case when _owner is null then true
        when _owner = _me then _its_handle = _handle or not _its_handle = any (_handles)
        else not exists (select 1 from worker where id = _owner and state in ('live', 'draining')) end;
$$;

-- Copies a session with its turns, summary and values. Null: the id is in use. It is one statement, so that all
-- parts of the copy are of one moment.
create function belay.copy_session(_from bigint, _id text, _host text, _now timestamptz) returns bigint
language plpgsql set search_path = belay, pg_temp as $$
declare
    _to bigint;
begin
    with s as (
        insert into session (id, created, updated, turns_total, context_from, input, output, spent_input, spent_output,
                cost, cost_max, cost_unknown, last_turn, host, directory, parent, title)
            select _id, _now, _now, turns_total, context_from, input, output, spent_input, spent_output,
                cost, cost_max, cost_unknown, last_turn, _host, directory, id, title from session where key = _from
            on conflict (id) do nothing returning key, turns_total),
    t as (
        insert into turn select s.key, t.number, t.id, t.run, t.interrupted, t.ended, t.input, t.output, t.spent_input,
                t.spent_output, t.cost, t.cost_max, t.cost_unknown, t.receipt, t.result, t.messages, t.events
            from s, turn t where t.session = _from and t.number <= s.turns_total),
    m as (
        insert into summary select s.key, m.messages from s, summary m where m.session = _from),
    v as (
        insert into cell_value (session, name, body)
            select s.key, v.name, v.body from s, cell_value v where v.session = _from order by v.key)
    select key into _to from s;
    return _to;
end $$;

-- Finds or makes the session that the options name. `verdict`: found, made, missing, none (newest),
-- other_session, other_prompt (request).
create function belay.find_or_make(_id text, _newest boolean, _must boolean, _host text, _directory text,
    _request text, _digest bytea, _title text, _agent_of text, _agent_turn text, _persona text, _made text,
    _now timestamptz, out verdict text, out found_key bigint, out found_id text)
language plpgsql set search_path = belay, pg_temp as $$
declare
    _known bytea;
begin
    select s.key, s.id, r.digest into found_key, found_id, _known
        from request r join session s on s.key = r.session where r.id = _request;
    if found_key is not null then
        verdict := case when _id is not null and _id <> found_id then 'other_session'
            when _known <> _digest then 'other_prompt' else 'found' end;
        return;
    end if;
    if _id is null and _newest then
        select key, id into found_key, found_id from session
            where host = _host and directory = _directory and agent_of is null
            order by updated desc, key desc limit 1;
        verdict := case when found_key is null then 'none' else 'found' end;
        return;
    end if;
    found_id := coalesce(_id, _made);
    select key into found_key from session where id = _id;
    if found_key is null and _must and _id is not null then
        verdict := 'missing';
        return;
    end if;
    verdict := 'found';
    if found_key is not null then
        return;
    end if;
    insert into session (id, created, updated, host, directory, title, agent_of, agent_turn, persona)
        values (found_id, _now, _now, _host, coalesce(_directory, ''), _title, _agent_of, _agent_turn, _persona)
        on conflict (id) do nothing returning key into found_key;
    verdict := 'made';
    if found_key is null then -- another worker has just made it
        select key into found_key from session where id = found_id;
        verdict := 'found';
    end if;
end $$;

-- Returns one row: the session and whether it is held now (`held`), or why not; the holder before; the first turn of
-- the context, 0 for a new session, which has none. If the same handle asks again, nothing changes and the answer is
-- the same. A request that arrives late is `busy`: a newer handle of its worker has held the session, or its own
-- handle has released it.
create function belay.hold(_me text, _handle bigint, _handles bigint[], _dead text[], _id text, _newest boolean,
    _must boolean, _fork boolean, _host text, _directory text, _run text, _request text, _digest bytea, _title text,
    _agent_of text, _agent_turn text, _persona text, _made text, _now timestamptz,
    out verdict text, out held_key bigint, out held_id text, out new_epoch bigint, out turns bigint, out from_turn bigint,
    out used_input bigint, out used_output bigint, out newest_turn text, out was_held boolean, out before text,
    out before_handle bigint, out before_pid bigint, out before_started bigint, out before_since timestamptz,
    out before_host text, out before_boot text, out before_space text, out cut_turn text, out cut_run text,
    out last_run text)
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _row session;
    _again boolean;
    _fresh boolean;
    _item text;
    _stop text;
begin
    perform durable(true);
    perform lose(_dead);
    if not exists (select 1 from worker where id = _me and state in ('live', 'draining')) then
        verdict := 'unregistered';
        return;
    end if;
    -- Locked before the session, so that no stop slips in between: what is held for a stopped item, or by an agent
    -- of a stopped session, is stopped from the start.
    select i.id, i.stop into _item, _stop from item i where i.id in (_run, _request) and i.owner = _me limit 1
        for no key update;
    if not found and _agent_of is not null then
        select s.item, s.stop into _item, _stop from session s where s.id = _agent_of and s.owner = _me for share;
    end if;
    select f.verdict, f.found_key, f.found_id into verdict, held_key, held_id
        from find_or_make(_id, _newest, _must or _fork, _host, _directory, _request, _digest, _title, _agent_of,
            _agent_turn, _persona, _made, _now) f;
    if verdict not in ('found', 'made') then
        return;
    end if;
    _fresh := verdict = 'made';
    if _fork and not exists (select 1 from session where id = _made) then
        held_key := copy_session(held_key, _made, _host, _now);
        held_id := _made;
    elsif _fork then -- a repeated request
        select key, id into held_key, held_id from session where id = _made;
    end if;
    select * into _row from session where key = held_key for no key update;
    if not found then -- it has just been deleted
        verdict := 'gone';
        return;
    end if;
    _again := _row.owner is not distinct from _me and _row.handle = _handle;
    before := case when _again then _row.before else coalesce(_row.owner, _row.holder) end;
    before_handle := _row.handle;
    before_since := case when not _again then _row.since end;
    select pid, started, host, boot, pid_space into before_pid, before_started, before_host, before_boot, before_space
        from worker where id = before;
    was_held := case when _again then _row.died else _row.owner is not null end;
    if (not _again and _row.holder is not distinct from _me and _row.handle >= _handle)
            or not may_take(_row.owner, _row.handle, _me, _handle, _handles) then
        verdict := 'busy';
        return;
    end if;
    if not _again then
        update session s set owner = _me, holder = _me, handle = _handle, epoch = s.epoch + 1, since = _now,
                before = hold.before, died = was_held, item = _item, stop = _stop
            where s.key = held_key;
        update item set session = held_id where id = _item and session is distinct from held_id and _agent_of is null;
    end if;
    verdict := 'held';
    new_epoch := _row.epoch + (not _again)::int;
    turns := _row.turns_total;
    from_turn := case when _fresh then 0 else _row.context_from end;
    used_input := _row.input;
    used_output := _row.output;
    newest_turn := _row.last_turn;
    cut_turn := _row.attempt;
    cut_run := _row.attempt_run;
    select id into last_run from run where session = held_key order by started desc, key desc limit 1;
    insert into request (id, session, digest) select _request, held_key, _digest where _request is not null
        on conflict (id) do nothing;
    insert into run (id, session, request, started) select _run, held_key, _request, _now where _run is not null
        on conflict (id) do nothing;
end $$;

create function belay.release(_me text, _key bigint, _epoch bigint) returns void
language sql security definer set search_path = belay, pg_temp as $$
    update session set owner = null where key = _key and owner = _me and epoch = _epoch;
$$;

-- Locks the row of a held session. False: it has another owner or epoch.
create function belay.fenced(_me text, _key bigint, _epoch bigint) returns boolean
language plpgsql set search_path = belay, pg_temp as $$
begin
    perform 1 from session where key = _key and owner = _me and epoch = _epoch for no key update;
    return found;
end $$;
