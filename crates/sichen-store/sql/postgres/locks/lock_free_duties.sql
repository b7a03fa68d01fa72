-- lock_free_duties: those duties that nobody writes under now, kept from being renewed or taken over until this
-- transaction ends. One whose owner stands still within a transaction keeps no other from being taken.
select d.* from duty d where key = any($1::text[]) order by key for no key update skip locked
