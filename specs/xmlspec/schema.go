package xmlspec

import _ "embed"

// Schema is the XML Schema of specs, for editors: sluice.xsd.
//
//go:embed sluice.xsd
var Schema []byte
