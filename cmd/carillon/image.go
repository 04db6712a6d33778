//go:build image

package main

import (
	_ "time/tzdata" // an image from scratch has no time zones

	_ "golang.org/x/crypto/x509roots/fallback" // nor certificate authorities
)
