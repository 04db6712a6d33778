// Package cascade has the process manager that runs after deletions: what belonged to a deleted organization or
// destination, or needed a feed that is gone, is deleted, deactivated or discarded.
package cascade
