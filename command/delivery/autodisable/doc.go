// Package autodisable has the process manager that disables destinations which fail for too long, or whose receiver
// answers 410 Gone. It counts failures in a row from recorded attempts; half of what disables makes a notice.
package autodisable
