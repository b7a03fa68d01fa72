-- list_notices: what is to be sent by ?1, at most ?2 of each receiver.
select n.id, n.receiver, n.body, n.created_at, n.due_at, n.tries from notice n
join (select id, row_number() over (partition by receiver order by due_at, id) as turn
  from notice where due_at <= ?1) d on d.id = n.id
where d.turn <= ?2 order by n.due_at, n.id
