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

// Failures declares all reasons with their words for people. The API's document is held to it by a test.
var Failures = []struct {
	Failure Failure
	Words   string
}{
	{FailureStatus, "Not a 2xx answer"},
	{FailureTimeout, "No answer in time"},
	{FailureConnection, "No connection"},
	{FailureDNS, "Host not found"},
	{FailureTLS, "No secure connection"},
	{FailureBlocked, "Address not allowed"},
	{FailureRedirect, "A redirect"},
	{FailureGone, "No longer wanted"},
}

// FailureNames lists all reasons as stored.
func FailureNames() (names []string) {
	for _, declared := range Failures {
		names = append(names, string(declared.Failure))
	}
	return names
}

// Words returns the reason for people; a reason of another version as it is stored.
func (f Failure) Words() string {
	for _, declared := range Failures {
		if declared.Failure == f {
			return declared.Words
		}
	}
	return string(f)
}
