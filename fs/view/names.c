/* SPDX-License-Identifier: MIT */
/*
 * names - a real entry called .usage gives way to the virtual one: it is shown as .usage~, a real
 * .usage~ as .usage~~, and so on. At the top the same holds for .telemetry and .growth.
 */
#include "fs/view/internal.h"

/* Length of the reserved word that name consists of, apart from any number of "~" after it; or 0. */
static size_t reserved(bool top, const char *name)
{
	static const char *const words[] = { ".usage", ".telemetry", ".growth" };

	for (size_t i = 0; i < (top ? ARRAY_SIZE(words) : 1); i++) {
		size_t len = strlen(words[i]);

		if (strncmp(name, words[i], len) == 0 &&
		    name[len + strspn(name + len, "~")] == '\0')
			return len;
	}
	return 0;
}

/* The real name behind a shown one; false if there is none, since the name is the virtual one's. */
bool name_to_real(bool top, const char *shown, char real[256])
{
	size_t len = strlen(shown), word = reserved(top, shown);

	if (len > 256 || (word && len == word))
		return false;
	len -= word > 0;
	if (len > 255)
		return false;
	memcpy(real, shown, len);
	real[len] = '\0';
	return true;
}

void name_to_shown(bool top, const char *real, char shown[260])
{
	size_t len = strlen(real);

	memcpy(shown, real, len + 1);
	if (reserved(top, real))
		memcpy(shown + len, "~", 2);
}
