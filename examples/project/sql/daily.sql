SELECT day, section, count(*) AS visits, sum(seconds) AS seconds
FROM {clean}
GROUP BY day, section
