-- note_access_tokens: the tokens ?1 (JSON array) were used at ?2.
update access_token set used_at = ?2 where name in (select value from json_each(?1))
