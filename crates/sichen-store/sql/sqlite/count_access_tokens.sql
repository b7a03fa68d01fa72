-- count_access_tokens: all tokens; there are never many.
-- scans: access_token
select count(*) from access_token
