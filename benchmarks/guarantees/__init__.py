"""Every promise, and what audits of it certify."""
