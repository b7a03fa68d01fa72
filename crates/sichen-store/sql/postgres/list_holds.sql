-- list_holds: what is held of capacity $1 at $2, oldest first.
select h.* from hold h where capacity = $1 and (until is null or until > $2)
order by since, run_id, no, token limit $3
