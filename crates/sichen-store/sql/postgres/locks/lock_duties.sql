-- lock_duties: keep duties from being renewed or taken over until this transaction ends.
select d.* from duty d where key = any($1::text[]) order by key for no key update
