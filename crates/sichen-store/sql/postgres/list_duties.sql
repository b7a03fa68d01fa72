-- list_duties: all duties (66 and one a pool: small).
-- scans: duty
select key, term, node_id, ver from duty order by key
