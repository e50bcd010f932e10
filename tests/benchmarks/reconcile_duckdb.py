"""The side of DuckDB: the same verdicts in SQL, with two threads, in a process of its own.

One query plan, written for speed: only identities that the log has twice are ranked (rule 15), copies are told by the
lowest and the highest offset.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb

SQL = """
with twice as (
    select cluster, topic, partition, producer_id, generation, sequence
    from read_parquet('{folder}/log/probes/**/*.parquet') group by all having count(*) > 1
), p as (
    select q.cluster, q.topic, q.partition, q.producer_id, q.generation, q.sequence, q.transaction_id, q.sent_at,
        q.offset, q.acked_at,
        q.outcome = 'acked' and (q.transaction_id is null or t.outcome = 'committed') as promised,
        q.outcome = 'failed' or coalesce(t.outcome = 'aborted', false) as refused,
        b.topic_id is not null and q.topic_id is not null and b.topic_id <> q.topic_id as other,
        b.earliest_offset, b.end_offset, b.dumped_at, b.retention_ms, b.retention_bytes,
        u.end_offset as high, u.dumped_at as also_dumped_at
    from (
        select p.* from read_parquet('{folder}/log/probes/**/*.parquet') p anti join twice
            using (cluster, topic, partition, producer_id, generation, sequence)
        union all by name
        select p.* from read_parquet('{folder}/log/probes/**/*.parquet') p semi join twice
            using (cluster, topic, partition, producer_id, generation, sequence)
        qualify row_number() over (
            partition by cluster, topic, partition, producer_id, generation, sequence
            order by outcome <> 'acked', outcome <> 'failed', acked_at
        ) = 1
    ) q
    left join read_parquet('{folder}/log/transactions/**/*.parquet') t
        using (cluster, producer_id, generation, transaction_id)
    join (select * from read_parquet('{folder}/dump/bounds/**/*.parquet') where isolation = 'read_committed') b
        using (cluster, topic, partition)
    left join (select * from read_parquet('{folder}/dump/bounds/**/*.parquet') where isolation = 'read_uncommitted') u
        using (cluster, topic, partition)
), r as (
    select r.*, r.offset >= b.end_offset as above
    from read_parquet('{folder}/dump/records/**/*.parquet') r
    join read_parquet('{folder}/dump/bounds/**/*.parquet') b using (cluster, topic, partition, isolation)
    where r.offset >= b.earliest_offset and (r.offset < b.end_offset)
), f as (
    select cluster, topic, partition, producer_id, generation, sequence,
        bool_or(isolation = 'read_committed') as committed,
        bool_or(isolation = 'read_uncommitted' and above) as held,
        min("offset") as first, max("offset") as last
    from r where valid and producer_id is not null
    group by all
), polled as (
    select cluster, topic, partition, producer_id, generation, sequence, true as polled
    from read_parquet('{folder}/log/polls/**/*.parquet') where isolation = 'read_committed' group by all
), bad as (select distinct cluster, topic, partition, "offset" from r where not valid)
select case
        when p.producer_id is null then case when f.committed then 'unexpected' end
        when p.other then 'other-incarnation'
        when p.refused and (coalesce(f.committed, false) or coalesce(polled, false)) then 'aborted-read'
        when f.first < f.last then 'duplicate'
        when p.offset < p.earliest_offset
            and (p.retention_ms is null or p.retention_bytes >= 0
                 or p.dumped_at - p.sent_at >= to_milliseconds(p.retention_ms)) then 'expired'
        when p.offset < p.earliest_offset and p.promised then 'early-expiry'
        when p.offset >= greatest(p.end_offset, p.high)
            and not (p.promised and p.acked_at < least(p.dumped_at, p.also_dumped_at) - interval 5 minute)
            then 'pending'
        when p.offset >= p.end_offset and p.offset < p.high and p.transaction_id is not null then 'pending'
        when p.promised and (f.committed or f.held) and (p.offset is null or p.offset between f.first and f.last)
            then 'survived'
        when p.promised and bad.offset is not null then 'corrupt'
        when p.promised and (f.committed or f.held) then 'moved'
        when p.promised or (coalesce(polled, false) and not coalesce(f.committed, false)) then 'lost'
        when f.committed then 'unacked-found'
        else 'unacked-absent'
    end as verdict, count(*) as n
from p
full join f on (p.cluster, p.topic, p.partition, p.producer_id, p.generation, p.sequence)
    = (f.cluster, f.topic, f.partition, f.producer_id, f.generation, f.sequence)
left join polled on (p.cluster, p.topic, p.partition, p.producer_id, p.generation, p.sequence)
    = (polled.cluster, polled.topic, polled.partition, polled.producer_id, polled.generation, polled.sequence)
left join bad on (bad.cluster, bad.topic, bad.partition, bad.offset) = (p.cluster, p.topic, p.partition, p.offset)
group by all
"""

if __name__ == "__main__":
    folder = Path(sys.argv[-1])
    connection = duckdb.connect(
        config={"threads": 2, "memory_limit": "10GB", "temp_directory": str(folder / "spill")},
    )
    connection.execute("set preserve_insertion_order = false")
    rows = connection.execute(SQL.replace("{folder}", str(folder))).fetchall()
    sys.stdout.write(json.dumps({"verdicts": dict(sorted((name, n) for name, n in rows if name is not None))}) + "\n")
