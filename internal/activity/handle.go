package activity

import "regexp"

// handleForm is that of GitHub's handles, by which users sign in. Case counts.
var handleForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,39}$`)

// IsHandle says whether a text has the form of a user's handle: 1 to 39 letters, digits and hyphens. What has not is nobody's,
// and need not be looked for.
func IsHandle(s string) bool { return handleForm.MatchString(s) }
