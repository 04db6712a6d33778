package delivery

// Failure is the reason of a failed attempt, as stored and shown.
type Failure string

// Each has a row in Failures.
const (
	FailureStatus     Failure = "http_status"
	FailureTimeout    Failure = "timeout"
	FailureConnection Failure = "connection"
	FailureDNS        Failure = "dns"
	FailureTLS        Failure = "tls"
	FailureBlocked    Failure = "blocked_address"
	FailureRedirect   Failure = "redirect"
	FailureGone       Failure = "gone"
)

// Failures declares all reasons. The API's document and each sender are held to it by a test.
var Failures = []struct {
	Failure  Failure
	Words    string // for people
	Answered bool   // the receiver has answered
}{
	{FailureStatus, "Not a 2xx answer", true},
	{FailureTimeout, "No answer in time", false},
	{FailureConnection, "No connection", false},
	{FailureDNS, "Host not found", false},
	{FailureTLS, "No secure connection", false},
	{FailureBlocked, "Address not allowed", false},
	{FailureRedirect, "A redirect", true},
	{FailureGone, "No longer wanted", true},
}

// Words returns the reason for people; a reason of another version as it is stored.
func (f Failure) Words() string {
	if i := f.row(); i >= 0 {
		return Failures[i].Words
	}
	return string(f)
}

// Answered reports whether the receiver has answered.
func (f Failure) Answered() bool {
	i := f.row()
	return i >= 0 && Failures[i].Answered
}

// row returns the index in Failures, or -1.
func (f Failure) row() int {
	for i := range Failures {
		if Failures[i].Failure == f {
			return i
		}
	}
	return -1
}
