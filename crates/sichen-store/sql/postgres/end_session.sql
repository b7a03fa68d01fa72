-- end_session: a session ends, once (version 1: not ended).
update session set ended_at = $2, ended_cause = $3, ver = ver + 1 where id = $1 and ver = 1
