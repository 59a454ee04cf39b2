-- Roles, each with the functions that it may call. No role may change a table, and none but the owner may
-- call the functions that others are made of.
do $rights$
declare
    _role text;
    _internal text[] := array['durable', 'lose', 'may_take', 'copy_session', 'find_or_make', 'fenced', 'add',
        'add_beside', 'refuse_cell', 'put_values', 'remove_cells', 'fenced_feature', 'made'];
    _function record;
begin
    foreach _role in array array['belay_worker', 'belay_read'] loop
        if not exists (select 1 from pg_roles where rolname = _role) then
            execute format('create role %I nologin', _role);
        end if;
        execute format('grant usage on schema belay to %I', _role);
        execute format('grant select on all tables in schema belay to %I', _role);
    end loop;
    for _function in select p.oid::regprocedure as signature, p.proname as name
            from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'belay' loop
        execute format('revoke all on function %s from public', _function.signature);
        if not _function.name = any (_internal) then
            execute format('grant execute on function %s to belay_worker', _function.signature);
        end if;
    end loop;
end $rights$;

insert into belay.fleet (version, oldest) values (1, 1);
