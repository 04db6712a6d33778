package adapters

// SmallPages makes what a source carries come in pages of two.
func (c FeedCuration) SmallPages() FeedCuration {
	c.memory.page = 2
	return c
}
