package notices

// The parts of a notice's data.
type (
	Data       = noticeData
	Event      = noticeEvent
	LastAnswer = lastAnswer
	Place      = noticePlace
)
