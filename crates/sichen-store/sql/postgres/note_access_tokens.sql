-- note_access_tokens: the tokens $1 were used at $2.
update access_token set used_at = $2 where name = any($1::text[])
