"""The checkpoint location: objects that are created once and never changed, in a folder or an object store."""
