"""OpenCode: its plugin, what the plugin tells, and the database of its sessions."""
