"""Values that must not be readable in a journal: found in any encoding (`search`), replaced by
placeholders (`mask`), compared by HMAC (`value_hmac`), and encrypted for a replay (`seal`)."""
