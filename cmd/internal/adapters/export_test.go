package adapters

import "time"

// TakeOverAfter has others taken for dead after that time without their lock.
func (q *DeliveryQueue) TakeOverAfter(absence time.Duration) {
	q.worker.mu.Lock()
	defer q.worker.mu.Unlock()
	q.worker.after = absence
}

// SmallPages makes what a source carries come in pages of two.
func (c FeedCuration) SmallPages() FeedCuration {
	c.memory.page = 2
	return c
}
