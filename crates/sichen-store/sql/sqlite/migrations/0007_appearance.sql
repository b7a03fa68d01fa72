-- Which of its worker's registrations made a session: of one worker only a later one counts.
alter table session add column start integer not null default 0 check (start >= 0);
alter table session add column registration integer not null default 0 check (registration >= 0);
create index session_appearance on session (worker_uid, start, registration);
