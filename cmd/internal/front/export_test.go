package front

// Look looks at the files now.
func Look(c *Certificate) error { _, err := c.reload(); return err }

// Name is whose certificate is in use.
func Name(c *Certificate) string { return c.current.Load().Leaf.Subject.CommonName }
