-- list_accounts: users by name after $1.
select document from account where name > $1 order by name limit $2
