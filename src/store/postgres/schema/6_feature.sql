-- Features: their lease, records and events. Each write first locks the feature's row by owner and epoch. A refused
-- write changes nothing.

-- Returns one row: the feature and whether it is held now (`held`), or why not (`missing`, `busy`, `unregistered`);
-- the lease before, whose owner is null if it was not held. If the same handle asks again, nothing changes and the
-- answer is the same. A request that arrives late is `busy`, as in belay.hold.
create function belay.hold_feature(_me text, _handle bigint, _handles bigint[], _dead text[], _must boolean,
    _host text, _repository text, _id text, _name text, _run text, _now timestamptz,
    out verdict text, out held_key bigint, out its_generation bigint, out before_epoch bigint, out before_owner text,
    out before_holder text, out before_handle bigint, out before_since timestamptz)
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _row feature;
    _again boolean;
    _late boolean;
begin
    perform durable(true);
    perform lose(_dead);
    if not exists (select 1 from worker where id = _me and state in ('live', 'draining')) then
        verdict := 'unregistered';
        return;
    end if;
    if not _must then
        insert into feature (created, updated, host, repository, id, name)
            values (_now, _now, _host, _repository, _id, coalesce(_name, _id))
            on conflict (host, repository, id) do nothing;
    end if;
    select * into _row from feature where host = _host and repository = _repository and id = _id for no key update;
    if not found then
        verdict := 'missing';
        return;
    end if;
    _again := _row.owner is not distinct from _me and _row.handle = _handle;
    _late := _row.holder is not distinct from _me and _row.handle >= _handle and not _again;
    held_key := _row.key;
    its_generation := _row.generation;
    before_epoch := _row.epoch - _again::int;
    before_owner := case when _again then _row.died else _row.owner end;
    before_holder := coalesce(before_owner, _row.holder);
    before_handle := _row.handle;
    before_since := case when not _again then _row.since end;
    if _late or not may_take(_row.owner, _row.handle, _me, _handle, _handles) then
        verdict := 'busy';
        return;
    end if;
    if not _again then
        update feature set owner = _me, holder = _me, handle = _handle, epoch = epoch + 1, since = _now,
                died = before_owner, stop = null, name = coalesce(_name, name), run = _run
            where key = held_key;
        delete from feature_write where feature = held_key;
    end if;
    verdict := 'held';
end $$;

create function belay.release_feature(_me text, _key bigint, _epoch bigint) returns void
language plpgsql security definer set search_path = belay, pg_temp as $$
begin
    perform durable(true);
    update feature set owner = null where key = _key and owner = _me and epoch = _epoch;
end $$;

-- Locks the row of a held feature and returns it; its key is null if it has another owner or epoch.
create function belay.fenced_feature(_me text, _key bigint, _epoch bigint) returns belay.feature
language sql set search_path = belay, pg_temp as $$
    select * from feature where key = _key and owner = _me and epoch = _epoch for no key update;
$$;

-- Writes records of the newest generation (json null: deleted) and adds events. Returns the generation; null: the
-- write is refused. Each write takes place once under an epoch: its number is kept. A number too old to be kept belongs
-- to a write that took place, because the client sends writes in order and repeats only its last batch.
create function belay.write_feature(_me text, _key bigint, _epoch bigint, _durable boolean, _number bigint,
    _new boolean, _now timestamptz, _names text[], _runs text[], _receipts text[], _ended boolean[], _json bytea[],
    _events bytea[]) returns bigint
language plpgsql security definer set search_path = belay, pg_temp as $$
declare
    _row feature;
    _generation bigint;
begin
    perform durable(_durable);
    _row := fenced_feature(_me, _key, _epoch);
    if _row.key is null then
        return null;
    end if;
    insert into feature_write
        select _key, _number
            where _number > coalesce((select max(number) from feature_write where feature = _key), 0) - 1000
        on conflict do nothing;
    if not found then
        return _row.generation;
    end if;
    if _number % 100 = 0 then
        delete from feature_write where feature = _key and number < _number - 1000;
    end if;
    update feature set updated = greatest(updated, _now), generation = generation + _new::int,
            events = events + cardinality(_events)
        where key = _key returning generation into _generation;
    -- Of several records with the same name, the last one counts.
    with g as (
        select distinct on (name) * from unnest(_names, _runs, _receipts, _ended, _json)
            with ordinality as g (name, run, receipt, ended, json, place) order by name, place desc),
    d as (
        delete from feature_record r using g where r.feature = _key and r.generation = _generation
            and r.name = g.name and g.json is null)
    insert into feature_record (feature, generation, name, run, receipt, ended, json)
        select _key, _generation, g.name, g.run, g.receipt, g.ended, g.json from g where g.json is not null
        on conflict (feature, generation, name) do update set run = excluded.run, receipt = excluded.receipt,
            ended = excluded.ended, json = excluded.json;
    insert into feature_event (feature, generation, number, json)
        select _key, _generation, _row.events + e.place, e.json from unnest(_events) with ordinality as e (json, place);
    return _generation;
end $$;
