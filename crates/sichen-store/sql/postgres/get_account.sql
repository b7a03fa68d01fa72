-- get_account: a user by his name.
select document from account where name = $1
