-- Offers of items: what an item is, its place in the queue, and its permit. Locks are taken in this order: worker,
-- feature, item, session, fair, permit; a parked item after its permit, if no other transaction has locked it.

-- ---- Names -------------------------------------------------------------------------------------------------------

-- An id of the form that programs make: 100 random bits.
create function belay.make_id(_prefix text) returns text
language sql volatile set search_path = belay, pg_temp as $$
    select _prefix || string_agg(
            substr('abcdefghijklmnopqrstuvwxyz234567', get_byte(b.bytes, i) % 32 + 1, 1), '' order by i)
        from (select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) as bytes) b,
            generate_series(0, 19) i;
$$;

create function belay.pool_channel(_pool text) returns text
language sql immutable set search_path = belay, pg_temp as $$
    select 'belay_' || left(encode(sha256(convert_to(_pool, 'UTF8')), 'hex'), 16);
$$;

create function belay.worker_channel(_worker text) returns text
language sql immutable set search_path = belay, pg_temp as $$
    select 'belay_' || _worker;
$$;

-- Listens for what concerns a worker. False: behind a pooler the connection to the server is another one each time,
-- and nothing can be heard.
create function belay.hear(_me text, _pool text, _pid bigint) returns boolean
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    if pg_backend_pid() <> _pid then
        return false;
    end if;
    execute format('listen %I', worker_channel(_me));
    if _pool is not null then
        execute format('listen %I', pool_channel(_pool));
    end if;
    return true;
end $$;

-- True if the user of the connection may look at and stop what `_submitter` has submitted.
create function belay.may_see(_submitter text) returns boolean
language sql stable set search_path = belay, pg_temp as $$
    select exists (select 1 from pg_roles where pg_has_role(session_user, oid, 'member')
        and rolname in ('belay_worker', 'belay_read', _submitter));
$$;

-- ---- Descriptions of items ---------------------------------------------------------------------------------------

-- What each key of an item may be. `form`: of a string, or of the members of a list; `low`, `high`: of a number, or
-- of a duration in milliseconds.
create function belay.item_shapes()
returns table (key text, type text, form text, low numeric, high numeric, expected text)
language sql immutable set search_path = belay, pg_temp as $$
    values
        ('kind', 'string', '^run$', null::numeric, null::numeric, 'run'),
        ('prompt', 'string', null, null, null, 'a text'),
        ('session', 'string', '^[a-z0-9-]{1,64}$', null, null, 'an id of 1 to 64 characters from a-z, 0-9 and -'),
        ('model', 'string', '^[^[:cntrl:]]{1,200}$', null, null, 'the name of a model'),
        ('permission_mode', 'string', '^(ask|auto|read-only|yolo|plan)$', null, null,
            'ask, auto, read-only, yolo or plan'),
        ('timeout', 'duration', null, 0, null, 'seconds, or a duration such as 90s, 2.5m, 1h'),
        ('max_turns', 'integer', null, 1, null, 'a whole number from 1'),
        ('max_steps', 'integer', null, 0, null, 'a whole number from 0'),
        ('max_budget_usd', 'number', null, 0, null, 'a number from 0'),
        ('pool', 'string', '^[A-Za-z0-9._-]{1,64}$', null, null, '1 to 64 of A-Z, a-z, 0-9, ''.'', ''_'' and ''-'''),
        ('labels', 'strings', '^[A-Za-z0-9._/-]{1,64}=[^[:cntrl:]]{0,200}$', null, null,
            'a list of at most 32 KEY=VALUE'),
        ('key', 'string', '^[^[:cntrl:]]{1,200}$', null, null, '1 to 200 characters'),
        ('weight', 'number', null, 0.001, 1000, 'a number from 0.001 to 1000'),
        ('priority', 'integer', null, -9, 9, 'a whole number from -9 to 9'),
        ('limit_key', 'string', '^[^[:cntrl:]]{1,200}$', null, null, '1 to 200 characters'),
        ('delay', 'duration', null, 0, null, 'seconds, or a duration such as 90s, 2.5m, 1h'),
        ('at', 'time', null, null, null, 'a time such as 2026-11-20T08:00:00Z'),
        ('retry', 'integer', null, 0, 100, 'a whole number from 0 to 100'),
        ('retry_delay', 'duration', null, 0, null, 'seconds, or a duration such as 90s, 2.5m, 1h'),
        ('retry_on', 'strings', '^(error|timeout)$', null, null, 'a list of error and timeout'),
        ('request_id', 'string', '^[A-Za-z0-9._:-]{1,128}$', null, null,
            '1 to 128 of A-Z, a-z, 0-9, ''.'', ''_'', '':'' and ''-'''),
        ('directory', 'string', '^/[^[:cntrl:]]*$', null, null, 'an absolute path'),
        ('trace_parent', 'string', '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$', null, null,
            'a traceparent of W3C Trace Context');
$$;

create function belay.item_keys() returns setof text
language sql immutable security definer set search_path = belay, pg_temp as $$
    select key from item_shapes() order by key;
$$;

create function belay.refuse(_message text) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    raise exception using errcode = 'invalid_parameter_value', message = _message;
end $$;

-- Seconds, or a duration such as 90s, in milliseconds; null: it is none, or longer than 100 years.
create function belay.duration_ms(_value jsonb) returns numeric
language plpgsql immutable set search_path = belay, pg_temp as $$
declare
    _parts text[];
    _ms numeric;
begin
    if jsonb_typeof(_value) = 'number' then
        _ms := (_value #>> '{}')::numeric * 1000;
    elsif jsonb_typeof(_value) = 'string' then
        _parts := regexp_match(_value #>> '{}', '^([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|s|m|h)?$');
        _ms := _parts[1]::numeric * case coalesce(_parts[2], 's')
            when 'ms' then 1 when 's' then 1000 when 'm' then 60000 else 3600000 end;
    end if;
    return case when abs(_ms) <= 3155760000000 then round(_ms) end;
end $$;

-- Null: it is not a time.
create function belay.instant(_value jsonb) returns timestamptz
language plpgsql stable set search_path = belay, pg_temp as $$
begin
    if jsonb_typeof(_value) = 'string' and _value #>> '{}' ~
            '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$' then
        return (_value #>> '{}')::timestamptz;
    end if;
    return null;
exception when datetime_field_overflow or invalid_datetime_format then
    return null;
end $$;

create function belay.has_shape(_value jsonb, _type text, _form text, _low numeric, _high numeric) returns boolean
language plpgsql stable set search_path = belay, pg_temp as $$
declare
    _number numeric;
begin
    if _type = 'string' then
        return jsonb_typeof(_value) = 'string' and _value #>> '{}' ~ _form;
    elsif _type = 'strings' then
        return jsonb_typeof(_value) = 'array' and jsonb_array_length(_value) <= 32 and not exists (
            select 1 from jsonb_array_elements(_value) e (value)
                where not has_shape(e.value, 'string', _form, null, null));
    elsif _type = 'time' then
        return instant(_value) is not null;
    elsif _type = 'duration' then
        _number := duration_ms(_value);
    elsif jsonb_typeof(_value) = 'number' then
        _number := (_value #>> '{}')::numeric;
    end if;
    return _number is not null and (_type <> 'integer' or _number = trunc(_number) and _number < 1e15)
        and _number >= coalesce(_low, _number) and _number <= coalesce(_high, _number);
end $$;

-- The text without \u0000, which JSON may have and the functions for JSON refuse. An escaped backslash is written in
-- another way first, so that what follows one is no escape. No value but the prompt may have what it becomes.
create function belay.without_nul(_json text) returns text
language sql immutable set search_path = belay, pg_temp as $$
    select case position('\u0000' in _json) when 0 then _json
        else replace(replace(_json, '\\', '\u005c'), '\u0000', '\u0001') end;
$$;

-- Checks a description, and returns what the queue needs from it: all keys but the prompt, of which it has the digest
-- if there is a request_id. A value is parsed once: the prompt may be large.
create function belay.read_item(_spec bytea) returns jsonb
language plpgsql stable set search_path = belay, pg_temp as $$
declare
    _json json;
    _each record;
    _read jsonb := '{}';
    _prompt json;
begin
    if octet_length(_spec) > 34603008 then
        perform refuse(format('the item has %s bytes (expected at most 33 MiB)', octet_length(_spec)));
    end if;
    _json := without_nul(convert_from(_spec, 'UTF8'))::json;
    if json_typeof(_json) <> 'object' then
        perform refuse('the item is not a JSON object');
    end if;
    for _each in select e.key, e.value, s.key as known, s.type, s.form, s.low, s.high, s.expected
            from json_each(_json) e left join item_shapes() s on s.key = e.key loop
        if _each.known is null then
            perform refuse(format('unknown key ''%s'' of an item', left(_each.key, 60)));
        elsif _read ? _each.key then
            perform refuse(format('the item has two values for %s', _each.key));
        elsif _each.key = 'prompt' and json_typeof(_each.value) = 'string' and length(_each.value::text) > 2 then
            _prompt := _each.value;
            _read := _read || '{"prompt": true}';
        elsif _each.key <> 'prompt'
                and has_shape(_each.value::jsonb, _each.type, _each.form, _each.low, _each.high) then
            _read := _read || jsonb_build_object(_each.key, _each.value);
        else
            perform refuse(format('invalid value %s for %s of an item (expected %s)', left(_each.value::text, 60),
                _each.key, _each.expected));
        end if;
    end loop;
    if _prompt is null then
        perform refuse('the item has no prompt');
    elsif _read ?& array['delay', 'at'] then
        perform refuse('the item has both delay and at');
    elsif _read ? 'request_id' then
        _read := _read || jsonb_build_object('prompt', encode(sha256(convert_to(_prompt #>> '{}', 'UTF8')), 'hex'));
    end if;
    return _read;
exception
    when invalid_text_representation or character_not_in_repertoire or untranslatable_character
            or statement_too_complex or numeric_value_out_of_range then
        perform refuse(format('the item cannot be read as JSON: %s', sqlerrm));
        return null;
end $$;

-- ---- Permits -----------------------------------------------------------------------------------------------------

-- Takes one, if there is one. `in_use` is read under the lock of the row.
create function belay.take_permit(_key text) returns boolean
language plpgsql set search_path = belay, pg_temp as $$
begin
    insert into permit (key) values (_key) on conflict (key) do nothing;
    update permit set in_use = in_use + 1 where key = _key and (most is null or in_use < most);
    return found;
end $$;

-- Queues at most `_most` parked items of a limit key whose row is locked, and for which there are permits. Those that
-- others have locked are left for the next heartbeat.
create function belay.unpark(_key text, _most bigint) returns bigint
language plpgsql set search_path = belay, pg_temp as $$
declare
    _item record;
    _count bigint := 0;
begin
    for _item in select id, pool, rank from item where limit_key = _key and state = 'parked' order by rank, id
            limit least(_most, (select greatest(coalesce(most - in_use, _most), 0) from permit where key = _key))
            for update skip locked loop
        update item set state = 'queued', permit = true where id = _item.id;
        perform pg_notify(pool_channel(_item.pool), _item.rank::text);
        _count := _count + 1;
    end loop;
    update permit set in_use = in_use + _count where key = _key and _count > 0;
    return _count;
end $$;

-- Gives a permit back, and passes it on.
create function belay.give_permit(_key text) returns void
language plpgsql set search_path = belay, pg_temp as $$
begin
    update permit set in_use = in_use - 1 where key = _key;
    perform unpark(_key, 1);
end $$;

-- Limits how many items with a limit key run or are queued at the same time; null: no limit.
create function belay.set_limit(_key text, _most bigint) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    if _most < 0 then
        perform refuse(format('invalid limit %s (expected a whole number from 0)', _most));
    end if;
    insert into permit (key, most) values (_key, _most) on conflict (key) do update set most = excluded.most;
    perform unpark(_key, 1000);
end $$;

-- ---- Offers ------------------------------------------------------------------------------------------------------

-- The virtual time that a key without waiting items continues from: that of the item that is claimed next, so that
-- the key gets its turn soon, and not before those that have waited. If that item has a low priority, the time is not
-- later than that of the newest item: new keys pass it, and as each of them is later than the one before, only as
-- often as its priority says.
create function belay.present_vtime(_pool text) returns float8
language plpgsql volatile set search_path = belay, pg_temp as $$
declare
    _first record;
    _newest float8;
begin
    select rank, priority into _first from item where pool = _pool and state = 'queued' order by rank, id limit 1;
    if _first.priority >= 0 then
        return _first.rank + 100 * _first.priority;
    end if;
    select max(vtime) into _newest from fair where pool = _pool;
    return coalesce(least(_newest, _first.rank), 0);
end $$;

-- Counts an item of the key, and returns its virtual time.
create function belay.next_vtime(_pool text, _key text, _weight float8) returns float8
language plpgsql set search_path = belay, pg_temp as $$
declare
    _now float8 := present_vtime(_pool);
    _vtime float8;
begin
    insert into fair as f (pool, key, vtime, weight)
        values (_pool, _key, _now + 1 / coalesce(_weight, 1), coalesce(_weight, 1))
        on conflict (pool, key) do update set weight = coalesce(_weight, f.weight),
            vtime = greatest(f.vtime, _now) + 1 / coalesce(_weight, f.weight)
        returning vtime into _vtime;
    return _vtime;
end $$;

-- The item that was offered with a request_id before; null: none, and it is `_id`'s from here on.
create function belay.take_request(_request text, _id text, _digest bytea) returns text
language plpgsql set search_path = belay, pg_temp as $$
declare
    _known item_request;
begin
    insert into item_request values (_request, _id, _digest) on conflict (id) do nothing;
    if found then
        return null;
    end if;
    select * into _known from item_request where id = _request;
    if _known.digest <> _digest then
        perform refuse(format('request %s was made with another prompt', _request));
    end if;
    return _known.item;
end $$;

create function belay.is_known(_id text) returns boolean
language sql volatile set search_path = belay, pg_temp as $$
    select exists (select 1 from item where id = _id) or exists (select 1 from ended where id = _id);
$$;

-- Offers an item, and returns its id: `_id`, or that of the item which was offered with the same request_id. Asked for
-- again, it changes nothing.
create function belay.offer(_id text, _spec bytea) returns text
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _read jsonb := read_item(_spec);
    _pool text := coalesce(_read ->> 'pool', 'main');
    _key text := coalesce(_read ->> 'key', session_user);
    _priority int := coalesce((_read ->> 'priority')::numeric, 0);
    _limit text := _read ->> 'limit_key';
    _at timestamptz := coalesce(instant(_read -> 'at'),
        clock_timestamp() + duration_ms(_read -> 'delay')::float8 * interval '1 ms');
    _known text;
    _state text := 'queued';
    _permit boolean := false;
    _rank float8;
begin
    perform durable(true);
    if _id !~ '^run_[a-z0-9]{1,40}$' then
        perform refuse(format('invalid id ''%s'' of an item', left(_id, 60)));
    end if;
    if is_known(_id) then
        return _id;
    end if;
    if _read ? 'request_id' then
        _known := take_request(_read ->> 'request_id', _id, decode(_read ->> 'prompt', 'hex'));
        if _known is not null then
            return _known;
        end if;
    end if;
    _rank := next_vtime(_pool, _key, (_read ->> 'weight')::float8) - 100 * _priority;
    if _at > clock_timestamp() then
        _state := 'delayed';
    elsif _limit is not null then
        _permit := take_permit(_limit);
        _state := case when _permit then 'queued' else 'parked' end;
    end if;
    insert into item (id, kind, state, pool, labels, fair_key, priority, rank, limit_key, permit, run_at, timeout_ms,
            session, submitter, trace, spec)
        values (_id, coalesce(_read ->> 'kind', 'run'), _state, _pool,
            array(select jsonb_array_elements_text(coalesce(_read -> 'labels', '[]'))), _key, _priority, _rank, _limit,
            _permit, _at, duration_ms(_read -> 'timeout'), _read ->> 'session', session_user, _read ->> 'trace_parent',
            _spec)
        on conflict (id) do nothing;
    if not found then -- the same offer, at the same moment
        raise exception using errcode = 'serialization_failure', message = format('item %s is being offered', _id);
    end if;
    if _state = 'queued' then
        perform pg_notify(pool_channel(_pool), _rank::text);
    end if;
    return _id;
end $$;

-- The same for SQL, in the transaction of the caller: the item is there when that commits.
create function belay.submit(_spec jsonb) returns text
language sql security definer set search_path = belay, pg_temp as $$
    select offer(make_id('run_'), convert_to(_spec::text, 'UTF8'));
$$;
