-- insert_session: a worker registers.
insert into session (id, ver, worker_name, worker_uid, boot_id, incarnation, pool, slots, handlers, draining,
  grant_seq, registered_at, expires_at, start, registration, offer)
values (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, ?9, ?10, ?11, ?12, ?13)
