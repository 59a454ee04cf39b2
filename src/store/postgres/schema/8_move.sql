-- Importing, copying and deleting sessions.

-- Returns the key of a session that this transaction has made: imports write into no other. The row of an older
-- session was written by another transaction, or was changed by this one when it held the session, which raises the
-- epoch, or stopped it.
create function belay.made(_id text) returns bigint
language plpgsql set search_path = belay, pg_temp as $$
declare
    _key bigint;
begin
    select key into _key from session
        where id = _id and xmin = pg_current_xact_id()::xid and epoch = 0 and stop is null;
    if _key is null then
        raise exception 'session % was not made by this transaction', _id using errcode = 'insufficient_privilege';
    end if;
    return _key;
end $$;

-- Begins an import. Fails with unique_violation if there is a session with that id.
create function belay.put_session(_id text, _created timestamptz, _updated timestamptz, _turns bigint, _from bigint,
    _host text, _directory text, _parent text, _title text, _agent_of text, _agent_turn text, _persona text,
    _summary bytea) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _key bigint;
begin
    perform durable(true);
    insert into session (id, created, updated, turns_total, context_from, host, directory, parent, title, agent_of,
            agent_turn, persona)
        values (_id, _created, _updated, _turns, _from, _host, _directory, _parent, _title, _agent_of, _agent_turn,
            _persona)
        returning key into _key;
    insert into summary select _key, _summary where _summary is not null;
end $$;

create function belay.put_turn(_session text, _number bigint, _id text, _run text, _interrupted boolean,
    _ended timestamptz, _input bigint, _output bigint, _spent_input bigint, _spent_output bigint, _cost float8,
    _cost_max float8, _cost_unknown boolean, _receipt text, _result bytea, _messages bytea, _events bytea)
returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into turn values (made(_session), _number, _id, _run, _interrupted, _ended, _input, _output, _spent_input,
        _spent_output, _cost, _cost_max, _cost_unknown, _receipt, _result, _messages, _events);
$$;

create function belay.put_attempt(_session text, _id text, _run text, _state text, _started timestamptz,
    _ended timestamptz, _spent_input bigint, _spent_output bigint, _cost float8, _cost_max float8,
    _cost_unknown boolean, _receipt text, _prompt bytea, _result bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into attempt (session, id, run, state, started, ended, spent_input, spent_output, cost, cost_max,
            cost_unknown, receipt, prompt, result)
        values (made(_session), _id, _run, _state, _started, _ended, _spent_input, _spent_output, _cost, _cost_max,
            _cost_unknown, _receipt, _prompt, _result);
$$;

-- Adds events or a receipt; either may be null. Keys of imported events are below those of any epoch.
create function belay.put_beside(_session text, _run text, _journal bigint, _events bytea, _receipt_id text,
    _scope text, _receipt bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    select add_beside(made(_session), _run, _journal, _events, _receipt_id, _scope, _receipt);
$$;

create function belay.put_imported_checkpoint(_session text, _name bytea, _body bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into checkpoint values (made(_session), _name, _body);
$$;

create function belay.put_cell(_session text, _id text, _created timestamptz, _deadline_ms bigint,
    _yielded_generation bigint, _generation bigint, _completed boolean, _ended timestamptz, _digest bytea,
    _receipt text, _yielded bytea, _terminal bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into cell (session, id, created, deadline_ms, yielded_generation, generation, completed, ended, digest,
            receipt, yielded, terminal)
        values (made(_session), _id, _created, _deadline_ms, _yielded_generation, _generation, _completed, _ended,
            _digest, _receipt, _yielded, _terminal);
$$;

create function belay.put_value(_session text, _name bytea, _body bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into cell_value (session, name, body) values (made(_session), _name, _body);
$$;

create function belay.put_tombstone(_session text, _id text, _buried timestamptz, _digest bytea) returns void
language sql security definer set search_path = belay, pg_temp as $$
    insert into cell_tombstone (session, id, buried, digest) values (made(_session), _id, _buried, _digest);
$$;

-- Ends an import. The number of tombstones is changed last, because its row stays locked until the transaction ends.
create function belay.put_totals(_session text, _input bigint, _output bigint, _spent_input bigint,
    _spent_output bigint, _cost float8, _cost_max float8, _cost_unknown boolean) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _key bigint := made(_session);
    _tombstones bigint;
begin
    update session set input = _input, output = _output, spent_input = _spent_input, spent_output = _spent_output,
            cost = _cost, cost_max = _cost_max, cost_unknown = _cost_unknown,
            last_turn = (select id from turn where session = _key order by number desc limit 1)
        where key = _key;
    select count(*) into _tombstones from cell_tombstone where session = _key;
    update tombstones set count = count + _tombstones where _tombstones > 0;
end $$;

-- Copies a session. `used`: another session has that id. A repeated call recognizes its copy by parent and time.
create function belay.fork_session(_from text, _id text, _host text, _now timestamptz, _again boolean) returns text
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _key bigint;
begin
    perform durable(true);
    select key into _key from session where id = _from;
    if _key is null then
        return 'missing';
    end if;
    if copy_session(_key, _id, _host, _now) is not null
            or _again and exists (select 1 from session where id = _id and parent = _from and created = _now) then
        return 'made';
    end if;
    return 'used';
end $$;

-- Deletes a session and those of the sub-agents below it. Returns one row: `deleted`, `missing`, or `busy` with the
-- holder of one of them. The sub-agents of imported sessions may form cycles.
create function belay.delete_session(_id text, _dead text[], out verdict text, out held_id text, out held_epoch bigint,
    out held_owner text, out held_handle bigint, out held_pid bigint, out held_started bigint,
    out held_since timestamptz, out held_until timestamptz, out held_host text, out held_boot text,
    out held_space text)
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _keys bigint[];
    _ids text[];
begin
    perform durable(true);
    perform lose(_dead);
    with recursive tree (key, id) as (
        select key, id from session where id = _id
        union select s.key, s.id from tree t join session s on s.agent_of = t.id)
        select array_agg(key), array_agg(id) into _keys, _ids from tree;
    if _keys is null then
        verdict := 'missing';
        return;
    end if;
    perform 1 from session where key = any (_keys) order by key for update;
    select s.id, s.epoch, s.owner, s.handle, w.pid, w.started, s.since, '2262-01-01', w.host, w.boot, w.pid_space
        into held_id, held_epoch, held_owner, held_handle, held_pid, held_started, held_since, held_until, held_host,
            held_boot, held_space
        from session s join worker w on w.id = s.owner
        where s.key = any (_keys) and w.state in ('live', 'draining') order by s.id <> _id, s.key limit 1;
    if held_id is not null then
        verdict := 'busy';
        return;
    end if;
    delete from checkpoint where session = any (_keys);
    delete from journal where session = any (_keys);
    delete from receipt where session = any (_keys);
    delete from attempt where session = any (_keys);
    delete from turn where session = any (_keys);
    delete from run where session = any (_keys);
    delete from request where session = any (_keys);
    delete from summary where session = any (_keys);
    delete from task where session = any (_ids);
    delete from session where key = any (_keys);
    perform remove_cells(_keys);
    verdict := 'deleted';
end $$;
