-- Which workers a join token lets in: JSON array of names, empty for any.
-- Servers of the version before judge such a token without its names: make the first when all are new.
alter table access_token add column workers text not null default '[]';
