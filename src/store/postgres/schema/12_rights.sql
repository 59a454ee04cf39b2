-- Roles, each with the functions that it may call. No role may change a table, and none but the owner may
-- call the functions that others are made of.
do $rights$
declare
    _role record;
    _function record;
    _internal text[] := array['durable', 'lose', 'may_take', 'copy_session', 'find_or_make', 'fenced', 'add',
        'add_beside', 'refuse_cell', 'put_values', 'remove_cells', 'fenced_feature', 'made', 'make_id', 'pool_channel',
        'worker_channel', 'may_see', 'item_shapes', 'refuse', 'duration_ms', 'instant', 'has_shape', 'without_nul',
        'read_item', 'take_permit', 'unpark', 'give_permit', 'present_vtime', 'next_vtime', 'take_request', 'is_known',
        'failure_envelope', 'end_item', 'requeue', 'give_back', 'queue_again', 'was_refused', 'fits', 'claim_of', 'settle_debts', 'release_due',
        'make_months', 'ask_stop', 'earlier_stop', 'stop_item', 'stop_session'];
begin
    for _role in select * from (values -- null: all but the internal ones; all
            ('belay_worker', null, null),
            ('belay_read', array['look', 'list', 'stopped', 'item_keys'], null),
            ('belay_submit', array['offer', 'submit', 'look', 'list', 'stop', 'cancel', 'stopped', 'item_keys'],
                array['fleet'])) as r (name, functions, tables) loop
        if not exists (select 1 from pg_roles where rolname = _role.name) then
            execute format('create role %I nologin', _role.name);
        end if;
        execute format('grant usage on schema belay to %I', _role.name);
        if _role.tables is null then
            execute format('grant select on all tables in schema belay to %I', _role.name);
        else
            execute (select string_agg(format('grant select on belay.%I to %I', t, _role.name), ';')
                from unnest(_role.tables) t);
        end if;
        for _function in select p.oid::regprocedure as signature, p.proname as name
                from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'belay' loop
            execute format('revoke all on function %s from public', _function.signature);
            if not _function.name = any (_internal)
                    and (_role.functions is null or _function.name = any (_role.functions)) then
                execute format('grant execute on function %s to %I', _function.signature, _role.name);
            end if;
        end loop;
    end loop;
end $rights$;

insert into belay.fleet (version, oldest) values (1, 1);
