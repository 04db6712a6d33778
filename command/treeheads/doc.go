// Package treeheads seals the log: it signs tree heads of it, keeps them and the leaves they cover in the log itself,
// and verifies the log against them.
//
//	log ──Hourly, Sealer.Seal──▶ treehead.signed.v1 in the log ──Outbox──▶ Target elsewhere
//	log, heads of both ──Verification.Run──▶ Report
//	log, heads ──Export──▶ a file that seal.VerifyExport verifies offline
//
// Nothing of this is in the path of an append: a seal reads what came since the one before.
package treeheads
