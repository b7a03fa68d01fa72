-- share_duties: keep duties as they are until this transaction ends; many may do so at once.
select d.* from duty d where key = any($1::text[]) order by key for share
