SELECT 'Hello, ' || coalesce(?1, 'world') || '!' AS greeting;
