-- share_calendars: keep calendars as they are until this transaction ends; many may do so at once.
select c.namespace from calendar c
join unnest($1::text[], $2::text[]) as n (namespace, name)
  on c.namespace = n.namespace and c.name = n.name
order by c.namespace, c.name for share of c
