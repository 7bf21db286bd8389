// pg-boss with the policy key_strict_fifo, one job at a time: batches of several of a key are refused by its index.
import { PgBoss } from "pg-boss";
import { begin, jobs, keys, over, print, start, tls } from "./drain.mjs";

const boss = new PgBoss({
  host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER,
  password: process.env.PGPASSWORD || undefined, database: process.env.PGDATABASE,
  ssl: tls, max: 10, supervise: false, schedule: false,
});
boss.on("error", () => {});
await boss.start();
const queue = "drain";
await boss.deleteQueue(queue);
await boss.createQueue(queue, { policy: "key_strict_fifo" });
// A key comes once in an insert: the jobs of one insert have the same time, and then the order is that of random ids.
for (let n = 0; n < jobs; n += keys) {
  const list = [];
  for (let i = n; i < Math.min(n + keys, jobs); i++) {
    list.push({ data: { n: i }, singletonKey: `k${i % keys}` });
  }
  await boss.insert(queue, list);
}

let working = true;

// persist tries again when PostgreSQL ended a deadlock: its fetches and completions can run into one.
let deadlocks = 0;
async function persist(action) {
  for (;;) {
    try {
      return await action();
    } catch (err) {
      if (err.code !== "40P01" || !working) {
        throw err;
      }
      deadlocks++;
    }
  }
}

begin();
const batchSize = Math.min(10, keys);
const loops = Array.from({ length: 8 }, async () => {
  while (working) {
    const batch = await persist(() => boss.fetch(queue, { batchSize }));
    for (const job of batch) {
      start(job.data.n);
    }
    if (batch.length > 0) {
      await persist(() => boss.complete(queue, batch.map((job) => job.id)));
    }
  }
});
await over;
working = false;
print({ deadlocks });
await Promise.allSettled(loops);
process.exit(0);
