-- Writes to a held session. Each write first locks the session's row by owner and epoch. A refused write changes
-- nothing.

-- Adds figures reported by providers. The sum is limited to what the column can hold.
create function belay.add(_a bigint, _b bigint) returns bigint
language sql immutable as $$
    select _a + least(_b, 9223372036854775807 - _a);
$$;

create function belay.add_beside(_key bigint, _run text, _journal bigint, _events bytea, _receipt_id text,
    _scope text, _receipt bytea) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    if _events is not null and not exists (select 1 from journal where session = _key and key = _journal) then
        insert into journal (session, key, run, lines) values (_key, _journal, _run, _events);
    end if;
    -- The receipt of a run may be written twice: with its turn, and at the end of the run with more content.
    if _receipt is not null then
        insert into receipt (session, id, scope, body) values (_key, _receipt_id, _scope, _receipt)
            on conflict (session, id) do update set body = excluded.body, scope = excluded.scope;
    end if;
end $$;

-- The next two functions must find each session by its key. `is not distinct from` keeps the planner from the index
-- by owner, which it might choose if it expects few rows: all sessions of the worker are in it, and scanning them for
-- every turn would take longer than the commit.

-- Begins turns of any number of this worker's sessions. Returns the keys of those that began.
create function belay.begin_turns(_me text, _keys bigint[], _epochs bigint[], _ids text[], _runs text[],
    _started timestamptz[], _prompts bytea[]) returns setof bigint
language plpgsql security definer set search_path = belay, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    perform durable(false);
    perform 1 from session s where s.key = any (_keys) order by s.key for no key update;
    return query
        update session s
            set attempt = g.id, attempt_run = g.run, attempt_at = g.started, attempt_prompt = g.prompt
            from unnest(_keys, _epochs, _ids, _runs, _started, _prompts) as g (key, epoch, id, run, started, prompt)
            where s.key = g.key and s.owner is not distinct from _me and s.epoch = g.epoch and s.stop is null
            returning s.key;
end $$;

-- Commits turns of any number of this worker's sessions. Returns the keys of those that were committed. The others
-- were refused, and nothing of them was changed.
create function belay.commit_turns(_me text, _keys bigint[], _epochs bigint[], _expect bigint[], _ids text[],
    _runs text[], _interrupted boolean[], _ended timestamptz[], _input bigint[], _output bigint[],
    _spent_input bigint[], _spent_output bigint[], _cost float8[], _cost_max float8[], _cost_unknown boolean[],
    _dropped bigint[], _titles text[], _results bytea[], _messages bytea[], _events bytea[], _summaries bytea[],
    _receipt_ids text[], _scopes text[], _receipts bytea[]) returns setof bigint
language plpgsql security definer set search_path = belay, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    perform durable(true);
    perform 1 from session s where s.key = any (_keys) order by s.key for no key update;
    -- The update returns the input with each row, so that the bodies are copied once. Joining the updated rows to the
    -- input again would copy them for every pair.
    return query
        with s as (
            update session s
                set updated = greatest(s.updated, g.ended), turns_total = s.turns_total + 1, last_turn = g.id,
                    context_from = least(s.context_from + least(g.dropped, s.turns_total + 2), s.turns_total + 2),
                    input = add(s.input, g.input), output = add(s.output, g.output),
                    spent_input = add(s.spent_input, g.spent_input),
                    spent_output = add(s.spent_output, g.spent_output), cost = s.cost + g.cost,
                    cost_max = s.cost_max + g.cost_max, cost_unknown = s.cost_unknown or g.cost_unknown,
                    title = case s.title when '' then coalesce(g.title, '') else s.title end,
                    attempt = null, attempt_run = null, attempt_at = null, attempt_prompt = null
                from unnest(_keys, _epochs, _expect, _ids, _runs, _interrupted, _ended, _input, _output,
                        _spent_input, _spent_output, _cost, _cost_max, _cost_unknown, _dropped, _titles, _results,
                        _messages, _events, _summaries, _receipt_ids, _scopes, _receipts)
                    as g (key, epoch, expect, id, run, interrupted, ended, input, output, spent_input,
                        spent_output, cost, cost_max, cost_unknown, dropped, title, result, messages, events,
                        summary, receipt_id, scope, receipt)
                where s.key = g.key and s.owner is not distinct from _me and s.epoch = g.epoch and s.stop is null
                    and s.attempt = g.id and s.turns_total = g.expect
                returning s.key as its_key, s.turns_total as number, g.*),
        t as (
            insert into turn
                select its_key, number, id, run, interrupted, ended, input, output, spent_input, spent_output, cost,
                    cost_max, cost_unknown, receipt_id, result, messages, events from s),
        m as (
            insert into summary select its_key, summary from s where summary is not null
                on conflict (session) do update set messages = excluded.messages),
        r as (
            insert into receipt (session, id, scope, body)
                select its_key, receipt_id, scope, receipt from s where receipt is not null
                on conflict (session, id) do update set body = excluded.body, scope = excluded.scope)
        select its_key from s;
end $$;

-- Called before writes that got no answer are repeated. Raises the epoch, so that the first ones are refused if they
-- arrive later. Waits for the lock of the session's row, and reads it as it is then. The handle still holds the session
-- if its epoch was raised since. No row: the fence is lost.
create function belay.in_doubt(_me text, _key bigint, _handle bigint, _epoch bigint, out newest_turn text,
    out new_epoch bigint) returns setof record
language sql security definer set search_path = belay, pg_temp as $$
    update session set epoch = epoch + 1 where key = _key and owner = _me and handle = _handle and epoch >= _epoch
        returning last_turn, epoch;
$$;

-- Ends an attempt without a turn. Also records an attempt that never began, and adds the result to one whose commit
-- was voided.
create function belay.reject_turn(_me text, _key bigint, _epoch bigint, _durable boolean, _run text, _journal bigint,
    _events bytea, _receipt_id text, _scope text, _receipt bytea, _id text, _ended timestamptz, _spent_input bigint,
    _spent_output bigint, _cost float8, _cost_max float8, _cost_unknown boolean, _prompt bytea, _result bytea)
returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    if not fenced(_me, _key, _epoch) then
        return false;
    end if;
    insert into attempt (session, id, run, state, started, ended, spent_input, spent_output, cost, cost_max,
            cost_unknown, receipt, stop, prompt, result)
        select _key, _id, _run, 'rejected', coalesce(case when s.attempt = _id then s.attempt_at end, _ended), _ended,
            _spent_input, _spent_output, _cost, _cost_max, _cost_unknown, _receipt_id, s.stop,
            coalesce(case when s.attempt = _id then s.attempt_prompt end, _prompt), _result
            from session s where s.key = _key
        on conflict (session, id) do update set state = 'rejected', ended = excluded.ended,
            spent_input = excluded.spent_input, spent_output = excluded.spent_output, cost = excluded.cost,
            cost_max = excluded.cost_max, cost_unknown = excluded.cost_unknown, receipt = excluded.receipt,
            result = excluded.result;
    update session set attempt = null, attempt_run = null, attempt_at = null, attempt_prompt = null
        where key = _key and attempt = _id;
    perform add_beside(_key, _run, _journal, _events, _receipt_id, _scope, _receipt);
    return true;
end $$;

create function belay.note(_me text, _key bigint, _epoch bigint, _durable boolean, _run text, _journal bigint,
    _events bytea, _receipt_id text, _scope text, _receipt bytea) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    if not fenced(_me, _key, _epoch) then
        return false;
    end if;
    perform add_beside(_key, _run, _journal, _events, _receipt_id, _scope, _receipt);
    return true;
end $$;

-- Compacts outside of a turn. A repeated call finds its key in the journal and changes nothing.
create function belay.compact(_me text, _key bigint, _epoch bigint, _durable boolean, _run text, _journal bigint,
    _events bytea, _receipt_id text, _scope text, _receipt bytea, _ended timestamptz, _input bigint, _output bigint,
    _spent_input bigint, _spent_output bigint, _cost float8, _cost_max float8, _cost_unknown boolean,
    _dropped bigint, _title text, _summary bytea) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    if not fenced(_me, _key, _epoch) then
        return false;
    end if;
    if exists (select 1 from journal where session = _key and key = _journal) then
        return true;
    end if;
    update session
        set updated = greatest(updated, _ended),
            context_from = least(context_from + least(_dropped, turns_total + 1), turns_total + 1),
            input = add(input, _input), output = add(output, _output), spent_input = add(spent_input, _spent_input),
            spent_output = add(spent_output, _spent_output), cost = cost + _cost, cost_max = cost_max + _cost_max,
            cost_unknown = cost_unknown or _cost_unknown,
            title = case title when '' then coalesce(_title, '') else title end
        where key = _key;
    insert into summary select _key, _summary where _summary is not null
        on conflict (session) do update set messages = excluded.messages;
    perform add_beside(_key, _run, _journal, coalesce(_events, ''), _receipt_id, _scope, _receipt);
    return true;
end $$;

create function belay.put_checkpoint(_me text, _key bigint, _epoch bigint, _durable boolean, _name bytea, _body bytea)
returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(_durable);
    if not fenced(_me, _key, _epoch) then
        return false;
    end if;
    insert into checkpoint values (_key, _name, _body)
        on conflict (session, name) do update set body = excluded.body;
    return true;
end $$;

-- Settles what a dead holder left: the attempt that was cut off (null: only background processes), and the
-- receipt of its end.
create function belay.settle_left(_me text, _key bigint, _epoch bigint, _turn text, _run text, _journal bigint,
    _events bytea, _receipt_id text, _receipt bytea, _now timestamptz) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    if not fenced(_me, _key, _epoch) then
        return false;
    end if;
    insert into attempt (session, id, run, state, started, ended, receipt, prompt)
        select key, attempt, attempt_run, 'cut_off', attempt_at, _now, _receipt_id, attempt_prompt
            from session where key = _key and attempt = _turn
        on conflict (session, id) do nothing;
    update session set attempt = null, attempt_run = null, attempt_at = null, attempt_prompt = null
        where key = _key and attempt = _turn;
    perform add_beside(_key, _run, _journal, _events, _receipt_id, _run, _receipt);
    return true;
end $$;
