// graphile-worker with a named queue for each key.
import pg from "pg";
import { Logger, run, runMigrations } from "graphile-worker";
import { begin, jobs, keys, over, print, start, tls } from "./drain.mjs";

const pgPool = new pg.Pool({ max: 26, ssl: tls });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {})); // it asks for both
const logger = new Logger(() => () => {});

await pgPool.query("DROP SCHEMA IF EXISTS graphile_worker CASCADE");
await runMigrations({ pgPool, logger });
await pgPool.query(
  `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
     SELECT json_populate_record(null::graphile_worker.job_spec,
       json_build_object('identifier', 'job', 'queue_name', 'q' || n % $2::int, 'payload', json_build_object('n', n)))
     FROM generate_series(0, $1::int - 1) AS n ORDER BY n))`,
  [jobs, keys],
);
await pgPool.query("ANALYZE");

begin();
const runner = await run({
  pgPool, logger, concurrency: 24, pollInterval: 50, noHandleSignals: true,
  taskList: { job: async ({ n }) => start(n) },
});
await over;
print();
process.exit(0); // what runs would only be waited for
