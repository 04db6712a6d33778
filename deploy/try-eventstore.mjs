// Tries an event store with the official Node.js client of EventStoreDB; see docs/operate/eventstore.md.
//
//   npm install @eventstore/db-client && node try-eventstore.mjs "esdb://127.0.0.1:2113?tls=false"
import {
  EventStoreDBClient, jsonEvent, FORWARDS, BACKWARDS, START, END, NO_STREAM, ANY, streamNameFilter,
  WrongExpectedVersionError, StreamNotFoundError, StreamDeletedError,
} from "@eventstore/db-client";
import assert from "node:assert/strict";

const client = EventStoreDBClient.connectionString(process.argv[2]);
const stream = `trial-${crypto.randomUUID()}`;
const done = (what) => console.log("ok  ", what);
const events = (n, type = "tried") => Array.from({ length: n }, (_, i) => jsonEvent({ type, data: { n: i }, metadata: { by: "trial" } }));

const appended = await client.appendToStream(stream, events(10), { expectedRevision: NO_STREAM });
assert.equal(appended.nextExpectedRevision, 9n);
await assert.rejects(client.appendToStream(stream, events(1), { expectedRevision: NO_STREAM }), WrongExpectedVersionError);
const many = await Promise.all(Array.from({ length: 50 }, () => client.appendToStream(stream, events(2), { expectedRevision: ANY })));
assert.ok(many.every((r) => r.success));
const retry = events(3), other = `${stream}-retried`;
for (const expectedRevision of [NO_STREAM, ANY, NO_STREAM]) await client.appendToStream(other, retry, { expectedRevision });
const once = [];
for await (const { event } of client.readStream(other)) once.push(event.id);
assert.deepEqual(once, retry.map(({ id }) => id));
done("append (single and 50 at once, wrong revision refused, retries recognized)");

let revisions = [];
for await (const { event } of client.readStream(stream, { direction: FORWARDS, fromRevision: START })) revisions.push(Number(event.revision));
assert.deepEqual(revisions, Array.from({ length: 110 }, (_, i) => i));
const last = [];
for await (const { event } of client.readStream(stream, { direction: BACKWARDS, fromRevision: END, maxCount: 3 })) last.push(Number(event.revision));
assert.deepEqual(last, [109, 108, 107]);
await assert.rejects(async () => { for await (const _ of client.readStream("no-such-stream")); }, StreamNotFoundError);
let all = 0;
for await (const _ of client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 20 })) all++;
assert.equal(all, 20);
done("read (stream forwards and backwards, not found, $all)");

const take = async (subscription, n, each = () => {}) => {
  const taken = [];
  for await (const resolved of subscription) { taken.push(resolved); await each(resolved); if (taken.length === n) break; }
  return taken;
};
const live = client.subscribeToStream(stream, { fromRevision: START });
setTimeout(() => client.appendToStream(stream, events(5)), 50);
assert.deepEqual((await take(live, 115)).map(({ event }) => Number(event.revision)), Array.from({ length: 115 }, (_, i) => i));
const filtered = client.subscribeToAll({ fromPosition: START, filter: streamNameFilter({ prefixes: [stream] }) });
assert.equal((await take(filtered, 115)).length, 115);
done("subscribe (stream to live, $all with a filter)");

await client.setStreamMetadata(stream, { maxCount: 4, owner: "trial" });
const { metadata } = await client.getStreamMetadata(stream);
assert.deepEqual([metadata.maxCount, metadata.owner], [4, "trial"]);
const kept = [];
for await (const { event } of client.readStream(stream)) kept.push(event);
assert.equal(kept.length, 4);
await client.deleteStream(stream);
await assert.rejects(async () => { for await (const _ of client.readStream(stream)); }, StreamNotFoundError);
await client.appendToStream(stream, events(1));
await client.tombstoneStream(stream);
await assert.rejects(async () => { for await (const _ of client.readStream(stream)); }, StreamDeletedError);
done("metadata, delete, append again, tombstone");
await client.dispose();
