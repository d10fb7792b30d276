"""Characters that cannot be seen, or that change how others are shown."""

import re

#: Matches one such character: control characters, line separators, direction controls, zero-width spaces, tags,
#: non-characters and unpaired surrogates. The joiners U+200C and U+200D are letters in some scripts and no match.
INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffc"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
