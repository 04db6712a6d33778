// Package arch holds the rules about who may import whom, and about files, and the tests that hold the source to them.
//
//	cmd ──▶ command ──▶ aggregates ──▶ eventstore ◀── eventstore/esdb ──▶ (client) ─ ─▶ eventstore/node
//	 │         ▲                           ▲
//	 ├─────────┴── projections ────────────┘
//	 └──▶ query
//
// Aggregates decide; command changes; projections write rows; query reads rows; eventstore remembers; cmd connects.
//
// Each rule is a value with its reason, in rules.go. The rules are read from the source itself, build constraints
// included, so that nothing need be compiled.
package arch
