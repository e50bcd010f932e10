"""What a run leaves behind: files, findings for the store, lost writes, a page with pictures."""
