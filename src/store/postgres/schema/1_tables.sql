-- The tables of a fleet. A row of `session` carries its fence: a commit changes it in the row that it
-- writes to. No index contains a column that a commit changes. Bodies are bytea, stored byte for byte.
create schema belay;

create table belay.fleet (
    one int primary key default 1 check (one = 1),
    version int not null,
    oldest int not null, -- the oldest version whose programs may use this schema
    lease_ms int not null default 30000,
    renew_ms int not null default 5000
);

create table belay.worker (
    id text primary key,
    host text not null,
    boot text not null,
    pid_space text not null,
    pid bigint not null,
    started bigint not null, -- of the process, in ticks since boot
    version int not null,
    pool text, -- that it claims from; null: none
    labels text[] not null default '{}',
    slots bigint not null default 0,
    state text not null default 'live' check (state in ('live', 'draining', 'lost', 'gone')),
    owes boolean not null default false, -- it is lost, and its items are not requeued yet
    beat bigint not null default 0,
    beat_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
create index worker_by_debt on belay.worker (id) where owes;

create table belay.session (
    key bigint generated always as identity primary key,
    id text not null unique,
    created timestamptz not null,
    updated timestamptz not null,
    turns_total bigint not null default 0,
    context_from bigint not null default 1, -- number of the first turn that the model sees
    input bigint not null default 0,
    output bigint not null default 0,
    spent_input bigint not null default 0, -- of committed turns
    spent_output bigint not null default 0,
    cost float8 not null default 0,
    cost_max float8 not null default 0,
    cost_unknown boolean not null default false,
    owner text, -- worker; null: not held
    holder text, -- the worker that held it last
    handle bigint not null default 0,
    epoch bigint not null default 0,
    since timestamptz,
    before text, -- the worker that held it before the last holder
    died boolean not null default false, -- that worker did not release it
    item text, -- for which it is held
    stop text, -- since which nothing is begun or committed under this hold
    attempt text, -- the running attempt
    attempt_run text,
    attempt_at timestamptz,
    attempt_prompt bytea,
    last_turn text,
    host text not null,
    directory text not null,
    parent text,
    agent_of text,
    agent_turn text,
    persona text,
    title text not null
) with (fillfactor = 70);
create index session_by_directory on belay.session (host, directory) where agent_of is null;
create index session_by_agent on belay.session (agent_of) where agent_of is not null;
create index session_by_owner on belay.session (owner) where owner is not null;
create index session_by_item on belay.session (item) where item is not null;

create table belay.request (
    id text primary key,
    session bigint not null,
    digest bytea not null -- of the prompt
);
create index request_by_session on belay.request (session);

create table belay.run (
    key bigint generated always as identity primary key,
    id text not null unique,
    session bigint not null,
    request text,
    started timestamptz not null
);
create index run_by_session on belay.run (session);
create index run_by_request on belay.run (request) where request is not null;

create table belay.turn (
    session bigint not null,
    number bigint not null,
    id text not null,
    run text not null,
    interrupted boolean not null,
    ended timestamptz not null,
    input bigint not null,
    output bigint not null,
    spent_input bigint not null,
    spent_output bigint not null,
    cost float8 not null,
    cost_max float8 not null,
    cost_unknown boolean not null,
    receipt text, -- id of its receipt
    result bytea not null,
    messages bytea not null,
    events bytea not null, -- lines
    primary key (session, number)
);

create table belay.summary ( -- of the turns before context_from
    session bigint primary key,
    messages bytea not null
);

create table belay.attempt (
    key bigint generated always as identity primary key,
    session bigint not null,
    id text not null,
    run text not null,
    state text not null check (state in ('rejected', 'cut_off')),
    started timestamptz not null,
    ended timestamptz not null,
    spent_input bigint not null default 0,
    spent_output bigint not null default 0,
    cost float8 not null default 0,
    cost_max float8 not null default 0,
    cost_unknown boolean not null default false,
    receipt text,
    stop text, -- that was in force when it ended
    prompt bytea not null,
    result bytea,
    unique (session, id)
);

create table belay.receipt (
    key bigint generated always as identity primary key,
    session bigint not null,
    id text not null,
    scope text, -- the run that was stopped
    body bytea not null,
    unique (session, id)
);
create index receipt_by_id on belay.receipt (id);

create table belay.journal (
    session bigint not null,
    key bigint not null, -- of its writer: epoch and number, so that it can be written again
    at timestamptz not null default clock_timestamp(),
    run text not null,
    lines bytea not null
) partition by range (at);
create index journal_by_session on belay.journal (session, key);
create table belay.journal_default partition of belay.journal default;

create table belay.checkpoint (
    session bigint not null,
    name bytea not null,
    body bytea not null,
    primary key (session, name)
);

create table belay.tombstones (
    one int primary key default 1 check (one = 1),
    count bigint not null default 0
);
insert into belay.tombstones default values;

create table belay.cell (
    key bigint generated always as identity primary key,
    session bigint not null,
    id text not null,
    created timestamptz not null,
    deadline_ms bigint not null,
    pid bigint not null default 0, -- of its worker; 0: unknown
    pid_started bigint not null default 0,
    yielded_generation bigint not null default 0, -- 0: none is retained
    generation bigint not null default 0, -- latest decided one
    completed boolean not null default false,
    ended timestamptz,
    digest bytea not null,
    receipt text, -- id of the receipt in its end
    yielded bytea,
    terminal bytea, -- null: not ended
    unique (session, id)
);
create index cell_by_id on belay.cell (id);

create table belay.cell_value (
    key bigint generated always as identity primary key,
    session bigint not null,
    name bytea not null,
    body bytea not null
);
create unique index cell_value_by_name on belay.cell_value (session, sha256(name));

create table belay.cell_tombstone (
    key bigint generated always as identity primary key,
    session bigint not null,
    id text not null,
    buried timestamptz not null,
    digest bytea not null,
    unique (session, id)
);
create index cell_tombstone_by_id on belay.cell_tombstone (id);

create table belay.feature (
    key bigint generated always as identity primary key,
    created timestamptz not null,
    updated timestamptz not null,
    generation bigint not null default 1,
    events bigint not null default 0, -- number of the last event, across all generations
    owner text,
    holder text,
    handle bigint not null default 0,
    epoch bigint not null default 0,
    since timestamptz,
    died text, -- the worker from which the last holder took it without a release
    stop text,
    host text not null,
    repository text not null,
    id text not null,
    name text not null,
    run text, -- of the last holder
    unique (host, repository, id)
) with (fillfactor = 70);
create index feature_by_owner on belay.feature (owner) where owner is not null;
create index feature_by_run on belay.feature (run);

create table belay.feature_record (
    feature bigint not null,
    generation bigint not null,
    name text collate "C" not null,
    run text, -- of the record named `feature`: its run
    receipt text, -- id of the receipt that it names
    ended boolean not null default false, -- of a feature or task: its state is final
    json bytea not null,
    primary key (feature, generation, name)
);
create index feature_record_by_run on belay.feature_record (run) where run is not null;

create table belay.feature_event (
    feature bigint not null,
    generation bigint not null,
    number bigint not null,
    json bytea not null,
    primary key (feature, generation, number)
);

create table belay.feature_write ( -- done under the present epoch, so that a repeated one is known
    feature bigint not null,
    number bigint not null,
    primary key (feature, number)
);

create table belay.task (
    key bigint generated always as identity primary key,
    id text not null unique,
    kind text not null,
    session text,
    created timestamptz not null,
    ended timestamptz, -- null: working; so is the next
    expires timestamptz,
    status text not null check (status in ('working', 'completed', 'failed', 'cancelled')),
    owner text not null,
    pid bigint not null,
    started bigint not null,
    host text not null,
    boot text not null,
    pid_space text not null,
    receipt bytea,
    result bytea
);
create index task_by_expiry on belay.task (expires) where expires is not null;

-- Items of the queue that wait or run. An item that ends is moved to `ended`.
create table belay.item (
    id text primary key,
    kind text not null default 'run',
    state text not null check (state in ('delayed', 'parked', 'queued', 'running', 'stopping')),
    attached boolean not null default false, -- begun by its owner, and offered to nobody else
    pool text not null,
    labels text[] not null default '{}',
    needs int not null default 1, -- version of its worker
    fair_key text not null,
    priority int not null default 0,
    rank float8 not null,
    limit_key text,
    permit boolean not null default false, -- it has one of its limit key
    owner text,
    epoch bigint not null default 0,
    stop text,
    tries bigint not null default 0,
    deaths bigint not null default 0,
    run_at timestamptz, -- of a delayed one
    timeout_ms bigint,
    deadline_at timestamptz,
    session text,
    host text, -- preferred until then
    host_until timestamptz,
    submitter text not null,
    trace text,
    spec bytea not null,
    offered_at timestamptz not null default clock_timestamp(),
    claimed_at timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index item_by_rank on belay.item (pool, rank, id) where state = 'queued';
create index item_by_owner on belay.item (owner) where owner is not null;
create index item_by_limit on belay.item (limit_key, rank, id) where state = 'parked';
create index item_by_time on belay.item (run_at) where state = 'delayed';
create index item_by_session on belay.item (session) where session is not null;

create table belay.ended (
    id text not null,
    kind text not null,
    state text not null check (state in ('completed', 'failed', 'cancelled', 'interrupted')),
    pool text not null,
    fair_key text not null,
    exit_code bigint not null,
    session text,
    worker text,
    host text,
    epoch bigint not null,
    stop text,
    tries bigint not null,
    deaths bigint not null,
    submitter text not null,
    offered_at timestamptz not null,
    ended_at timestamptz not null default clock_timestamp(),
    spec bytea not null,
    envelope bytea,
    receipt bytea
) partition by range (ended_at);
create index ended_by_id on belay.ended (id);
create index ended_by_offer on belay.ended (offered_at, id);
create table belay.ended_default partition of belay.ended default;

create table belay.item_request ( -- request_id of an item
    id text primary key,
    item text not null,
    digest bytea not null -- of the prompt
);

create table belay.pool (
    name text primary key,
    paused boolean not null default false
);

create table belay.fair (
    pool text not null,
    key text not null,
    vtime float8 not null, -- of the item that was offered last
    weight float8 not null default 1,
    primary key (pool, key)
);
create index fair_by_vtime on belay.fair (pool, vtime);

create table belay.permit (
    key text primary key,
    most bigint, -- null: no limit
    in_use bigint not null default 0
) with (fillfactor = 50);

create table belay.stop (
    id text primary key,
    target text not null,
    part text, -- null: all of it
    origin text not null,
    now boolean not null,
    asked_at timestamptz not null default clock_timestamp()
);
create index stop_by_target on belay.stop (target);

create table belay.stop_unit ( -- one for each item that is stopped, or for the session
    stop text not null,
    item text not null,
    owner text, -- null: it was not running
    epoch bigint not null,
    fate text, -- null: not answered yet
    fenced boolean not null,
    receipt bytea,
    answered_at timestamptz,
    primary key (stop, item)
);
create index stop_unit_by_owner on belay.stop_unit (owner) where fate is null;
create index stop_unit_by_item on belay.stop_unit (item) where fate is null;
