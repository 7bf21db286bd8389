// What the scripts have in common: their arguments, the count, and the order of each key's jobs.
// Arguments: jobs, keys, seconds at most. The connection is in PGHOST and its like.

export const [jobs, keys, limit] = process.argv.slice(2).map(Number);

// tls is what PGSSLMODE=require means to PostgreSQL's own programs: no look at the certificate.
export const tls = process.env.PGSSLMODE === "require" ? { rejectUnauthorized: false } : false;

const started = new Array(jobs).fill(false);
const next = new Array(keys).fill(0);
let count = 0, disorder = 0, first = 0, last = 0;
let finish;

// over is fulfilled when all jobs have started, or the time is up.
export const over = new Promise((resolve) => { finish = resolve; });

// start enters a job: number n belongs to key n % keys, and a key's numbers should come up in order.
export function start(n) {
  last = performance.now();
  if (count === 0) {
    first = last;
    setTimeout(finish, limit * 1000);
  }
  if (started[n]) {
    return;
  }
  started[n] = true;
  const key = n % keys;
  if (n < next[key]) {
    disorder++;
  }
  next[key] = Math.max(next[key], n + keys);
  if (++count === jobs) {
    finish();
  }
}

// begin starts the time for a queue in which no job starts at all.
export function begin() {
  setTimeout(() => { if (count === 0) finish(); }, limit * 1000);
}

export function print(more) {
  console.log(JSON.stringify({ count, seconds: (last - first) / 1000, disorder, ...more }));
}
